"""The command line: one small file per command."""


def main() -> None:
    """Run a command. Nothing is imported before Ctrl-C ends with one line instead of a trace."""
    try:
        from scrl.cli.interrupts import leave_on_interrupt

        leave_on_interrupt()
        from scrl.cli.app import run

        run()
    except KeyboardInterrupt:
        from scrl.cli.interrupts import leave

        leave()
