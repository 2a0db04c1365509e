"""The command line, with one module per command."""


def main() -> None:
    """Run a command; the handler of Ctrl-C is installed before anything is imported."""
    try:
        from scrl.cli.interrupts import leave_on_interrupt

        leave_on_interrupt()
        from scrl.cli.app import run

        run()
    except KeyboardInterrupt:
        from scrl.cli.interrupts import leave

        leave()
