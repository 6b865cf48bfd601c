"""The terminal: commands, wiring, live display."""
