"""The `trackside` program, also `python -m trackside.cli`: a process that runs nothing else."""

import atexit
import gc

_NEW_OBJECTS = 10_000
"""Allocations between collections; Python's default is 700, our modules alone make 60,000."""


def command() -> None:
    """Modules live as long as the process: collecting garbage while they are loaded, and once more
    at exit, takes a quarter of a short command's time.
    """
    gc.disable()
    atexit.register(gc.freeze)
    from trackside.cli.main import OWN_PROCESS, main

    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
    gc.enable()
    main(prog_name="trackside", obj=OWN_PROCESS)


if __name__ == "__main__":
    command()
