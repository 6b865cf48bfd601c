"""What is measured: the suite in C (`suite/`), how it is compiled, run on a machine, and read back."""
