"""How the cells of a notebook end, for a run that lives across them.

IPython catches what a cell raises, so the process knows of it only from here. Whether an error was
the end of a run is seen later: not if another cell goes well, but if the kernel ends.
"""

import sys
from typing import Any, Protocol


class CellWatcher(Protocol):
    """The run that wants to know."""

    def note_cell(self, error: BaseException | None) -> None: ...


class Cells:
    """Tells one run of each cell, from `install` to `remove`; nothing where there are none."""

    def __init__(self, run: CellWatcher) -> None:
        self._run = run
        self._shell: Any = None

    def install(self) -> None:
        ipython = sys.modules.get("IPython")
        self._shell = None if ipython is None else ipython.get_ipython()
        if self._shell is not None:
            self._shell.events.register("post_run_cell", self._after)

    def remove(self) -> None:
        """Again: nothing. IPython goes on with the list it had when a cell removes itself."""
        shell, self._shell = self._shell, None
        if shell is not None and self._after in shell.events.callbacks["post_run_cell"]:
            shell.events.unregister("post_run_cell", self._after)

    def _after(self, result: Any) -> None:
        if self._shell is not None:
            self._run.note_cell(result.error_before_exec or result.error_in_exec)
