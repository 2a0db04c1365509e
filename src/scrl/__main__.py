"""`python -m scrl` is `scrl`."""

from scrl.cli import main

main()
