"""The command line: one small file per command."""

from scrl.cli.app import main

__all__ = ["main"]
