"""Step counters that continue when a job is resumed from its checkpoints."""

import os
import time
from pathlib import Path
from typing import Any

from trackside.capture.checkpoints.trace import STATE, TRACE, trace
from trackside.capture.failures import Failures
from trackside.capture.modes import ModeKeys
from trackside.files.durable import read_json, write_json
from trackside.files.permissions import BY_UMASK

_IGNORED = "sagemaker-uploaded"
_SECONDS = 1.0
"""Between two checks for a new checkpoint: each lists a folder, a step may take a millisecond."""


class ResumeState:
    """Stored next to the checkpoints, and written only when those have changed."""

    def __init__(self, checkpoint_config: Path, failures: Failures) -> None:
        self._failures = failures
        self._folder: Path | None = None
        self._items: list[dict[str, Any]] = []
        self._checked_at = self._seen = 0.0
        try:
            config: Any = read_json(checkpoint_config) if checkpoint_config.is_file() else None
            folder = config.get("LocalPath") if isinstance(config, dict) else None
            self._folder = Path(folder) if folder else None
            self._seen = self._newest_checkpoint()
        except (OSError, ValueError) as error:
            failures.report("reading the checkpoint configuration", error)

    @property
    def is_kept(self) -> bool:
        return self._folder is not None

    def restore(self) -> tuple[int, dict[ModeKeys, int]]:
        """The counters of the item with the most progress; -1 everywhere without any."""
        try:
            state = read_json(self._folder / STATE) if self._folder else None
            if not isinstance(state, list) or not state:
                return -1, {ModeKeys.GLOBAL: -1}
            furthest = max(state, key=lambda item: int(item["latest-global-step-seen"]))
            modes = {ModeKeys[key]: int(n) for key, n in furthest["latest-mode-step"].items()}
            step = int(furthest["latest-global-step-seen"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._failures.report(f"resuming by {self._folder}/{STATE}", error)
            return -1, {ModeKeys.GLOBAL: -1}
        self._items = state
        return step, modes

    def save(
        self,
        saved: int | None,
        seen: int,
        mode_steps: dict[ModeKeys, int],
        *,
        at_end: bool = False,
    ) -> None:
        if self._folder is None or not (at_end or self._is_time()):
            return
        newest = self._newest_checkpoint()
        if newest == self._seen:
            return
        for item in self._items:
            item.pop(TRACE, None)  # of the newest only: each checkpoint adds one
        self._items.append(
            {
                "training-run": 1 + max((i.get("training-run", 0) for i in self._items), default=0),
                "latest-global-step-saved": -1 if saved is None else saved,
                "latest-global-step-seen": seen,
                "latest-mode-step": {mode.name: step for mode, step in mode_steps.items()},
                TRACE: trace.to_json(),
            }
        )
        write_json(self._folder / STATE, self._items, mode=BY_UMASK)
        self._seen = newest

    def _is_time(self) -> bool:
        now = time.monotonic()
        if now - self._checked_at < _SECONDS:
            return False
        self._checked_at = now
        return True

    def _newest_checkpoint(self) -> float:
        if self._folder is None or not self._folder.is_dir():
            return 0.0
        with os.scandir(self._folder) as entries:
            return max(
                (e.stat().st_mtime for e in entries if _IGNORED not in e.name and e.name != STATE),
                default=0.0,
            )
