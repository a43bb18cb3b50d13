"""Entry point of ``tbd-trace`` and ``python -m tbd_trace``."""

import os
import signal


def main() -> None:
    """Run the command line; Ctrl-C ends it with exit code 130, also while it is imported."""
    # Imports take a tenth of a second and leave nothing to clean up. An exception in the middle of
    # one would be a traceback, or abort a library that is being loaded.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from tbd_trace.cli.main import main as run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    main()
