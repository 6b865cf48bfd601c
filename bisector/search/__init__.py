"""Which commit is it, and what to measure next: pure numbers. No clock, no files, no randomness but a given seed."""
