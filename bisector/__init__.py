"""Find the commit that made a Linux kernel slower, with a stated probability."""

__version__ = "0.1.0"
