"""The command `androstep`, also as `python -m androstep_analysis`."""

import sys


def main() -> int:
    """Run one command and return its exit status; no signal prints a traceback, whenever it comes."""
    try:
        import signal

        from androstep_analysis import cli

        try:
            return cli.main()
        finally:  # Nothing is left to do but to end.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
