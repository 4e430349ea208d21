"""Plays a fuzzer's rounds in a child process with little memory and little time for each.

A round that breaks a bound, crashes or fails is named with all that is needed to play it again:
`TRACKSIDE_FUZZ_SEED=5:137 make test ARGS=tests/fuzz` plays round 137 of seed 5 alone.
"""

import faulthandler
import logging
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from random import Random

SEED = os.environ.get("TRACKSIDE_FUZZ_SEED", "1")
"""Read when the tests are collected: each test has its environment cleaned."""
CPU_SECONDS = 30
"""For one round, by the processor's clock: a machine that stands still costs nothing."""
MEMORY_BYTES = 512 << 20
"""More than the child has when its first round begins."""
_REPOSITORY = Path(__file__).parents[2]

Play = Callable[[Random, Path], None]
"""One round: by a generator of its own, in an empty folder that all rounds share."""


def play(round_: Play, num_rounds: int, *, environment: Mapping[str, str] | None = None) -> None:
    """Fails with the output of the first round that does. `round_` is a module's function."""
    seed, _, only = SEED.partition(":")
    first, last = (int(only), int(only) + 1) if only else (0, num_rounds)
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder, "round")
        command = [sys.executable, "-m", "tests.fuzz.bounded", round_.__module__, round_.__name__]
        child = subprocess.run(
            [*command, folder, seed, str(first), str(last)],
            env={**os.environ, **(environment or {})},
            cwd=_REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        reached = at.read_text() if at.exists() else "none"
    assert child.returncode == 0, (
        f"{round_.__name__}, round {reached} of seed {seed}, ended with {child.returncode}; "
        f"again with TRACKSIDE_FUZZ_SEED={seed}:{reached}\n{child.stdout[-8000:]}"
    )


def _main(module: str, name: str, folder: str, seed: str, first: str, last: str) -> None:
    round_: Play = getattr(import_module(module), name)
    # Dumps where it is, by a handler in C that no endless loop holds up; then the signal ends it.
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)
    logging.basicConfig(handlers=[logging.NullHandler()])  # warnings are made, and not printed
    _limit_memory()
    place = Path(folder, "files")
    place.mkdir()
    with open(Path(folder, "round"), "wb", buffering=0) as at:
        for number in range(int(first), int(last)):
            os.pwrite(at.fileno(), str(number).encode(), 0)
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            round_(Random(f"{seed}/{name}/{number}"), place)


def _limit_memory() -> None:
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        return  # its shadow counts as memory
    status = Path("/proc/self/status").read_text()
    used = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData"))
    limit = used * 1024 + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    _main(*sys.argv[1:])
