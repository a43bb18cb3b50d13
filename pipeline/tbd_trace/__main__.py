"""``python -m tbd_trace``: the command line without its entry point."""

from tbd_trace.cli.main import main

if __name__ == "__main__":
    main()
