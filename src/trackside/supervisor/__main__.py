"""`python -m trackside.supervisor JOB_FOLDER HOST NONCE`: supervises one host of a job.

`--group HOST` does so where there is no folder of the job yet; `--leave` removes what is left of
such a host when its supervisor has ended.
"""

import gc
import sys

_NEW_OBJECTS = 10_000
"""Allocations between collections; Python's default is 700."""


def main(arguments: list[str]) -> int:
    """Modules live as long as the process: no garbage is looked for while they are loaded, nor
    among them afterwards."""
    gc.disable()
    if arguments == ["--leave"]:
        from trackside.supervisor.leave_group import main as leave

        return leave()
    from trackside.supervisor.program import main as supervise

    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
    gc.enable()
    return supervise(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
