"""`python -m bisector.cli`: the command without its installed script."""

from bisector.cli.main import main

main()
