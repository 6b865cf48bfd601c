"""The words everybody speaks: frozen values and errors. Standard library only, no I/O."""
