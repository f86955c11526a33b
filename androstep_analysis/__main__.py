"""Entry point of the command `androstep` and of `python -m androstep_analysis`."""

import gc
import sys


def main() -> int:
    """Run one command and return its exit status, without a traceback for an interrupt at any time."""
    gc.set_threshold(10_000)  # imports and figures create many objects, but hardly any garbage
    try:
        import signal

        from androstep_analysis import cli

        try:
            return cli.main()
        finally:  # A signal during the interpreter's shutdown would print a traceback.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
