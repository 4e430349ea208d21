"""How far the pull of an image is, on standard error: a bar on a terminal, lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from trackside.containers.images import Pull, pulls_shown
from trackside.texts.quantities import size
from trackside.texts.terminal_text import visible

if TYPE_CHECKING:  # slow to import, and most images are here already
    from rich.progress import Progress

LINE_SECONDS = 10.0
"""Between two lines."""


@contextmanager
def pull_shown() -> Iterator[None]:
    """Inside, pulls are shown; nothing if the image is here already."""
    shown = Bar() if sys.stderr.isatty() else Lines(sys.stderr)
    try:
        with pulls_shown(shown):
            yield
    finally:
        shown.close()


class Bar:
    def __init__(self) -> None:
        self._bars: Progress | None = None

    def __call__(self, pull: Pull) -> None:
        if self._bars is None:
            self._bars = _new_bars()
            self._bars.start()
            self._bars.add_task("", total=None)
        [task] = self._bars.task_ids
        self._bars.update(
            task,
            description=f"Pulling {visible(pull.name)}",
            completed=pull.done_bytes,
            total=pull.size_bytes or None,
        )

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()


def _new_bars() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=Console(stderr=True, highlight=False, markup=False, emoji=False),
        transient=True,
    )


class Lines:
    """One at the start, and then one every few seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._said_at: float | None = None

    def __call__(self, pull: Pull) -> None:
        now = time.monotonic()
        if self._said_at is None:
            self._say(f"Pulling {visible(pull.name)}")
        elif now - self._said_at >= LINE_SECONDS:
            done, whole = size(pull.done_bytes), size(pull.size_bytes)
            self._say(f"Pulling {visible(pull.name)}: {done} of {whole}")
        else:
            return
        self._said_at = now

    def close(self) -> None:
        """Nothing is left to be shown."""

    def _say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)
