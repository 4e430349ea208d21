"""A wall clock that can be set for some processes only: `wall_clock.c`, built when it is used.

Processes that are started with `variables` see the clock as it is set here, also when it is set
while they run. No other process and no other clock is touched.
"""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.drill.case import NotShown
from benchmarks.drill.preloaded import built

_VARIABLE = "DRILL_WALL_CLOCK"


class WallClock:
    def __init__(self, folder: Path) -> None:
        self._file = folder / "wall-clock"
        self._file.write_bytes(bytes(8))
        library = built("wall_clock", folder)
        self.variables = {"LD_PRELOAD": str(library), _VARIABLE: str(self._file)}
        self._check()

    def shift(self, seconds: float) -> None:
        """Against the true time: 0 sets it right."""
        data = round(seconds * 1e9).to_bytes(8, sys.byteorder, signed=True)
        with self._file.open("r+b", buffering=0) as file:  # in place: it is mapped
            file.write(data)

    def _check(self) -> None:
        """That it works here: else a case would show nothing."""
        program = "import time; print(time.time() - time.clock_gettime(time.CLOCK_TAI))"
        self.shift(86_400.0)
        shifted, true = (
            float(_output([sys.executable, "-c", program], environment))
            for environment in (self.variables, {})
        )
        self.shift(0.0)
        if abs(shifted - true - 86_400.0) > 1.0:
            raise NotShown("this Python does not take the time from the library that is preloaded")


def _output(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout
