"""What is measured: the C suite, its runner and the parsers."""
