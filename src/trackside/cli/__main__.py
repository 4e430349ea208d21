"""The `trackside` program, also `python -m trackside.cli`: a process that is ours alone."""

import atexit
import gc

_NEW_OBJECTS = 10_000
"""Between two collections; Python's own 700 are a few of the 60,000 that our modules come to."""


def command() -> None:
    """Modules stay as long as the process: to look through them for garbage while they are loaded,
    and all of them once more at the end, takes a quarter of a short command's time."""
    gc.set_threshold(_NEW_OBJECTS)
    atexit.register(gc.freeze)
    from trackside.cli.main import OWN_PROCESS, main

    main(prog_name="trackside", obj=OWN_PROCESS)


if __name__ == "__main__":
    command()
