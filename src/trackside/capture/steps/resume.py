"""Step counters that go on when a job is resumed from its checkpoints."""

import os
from pathlib import Path
from typing import Any

from trackside.capture.modes import ModeKeys
from trackside.durable import read_json, write_json

STATE = "metadata.json"
_IGNORED = "sagemaker-uploaded"


class ResumeState:
    """Kept beside the checkpoints, and written only when those have changed."""

    def __init__(self, checkpoint_config: Path) -> None:
        config: Any = read_json(checkpoint_config) if checkpoint_config.is_file() else None
        folder = config.get("LocalPath") if isinstance(config, dict) else None
        self._folder = Path(folder) if folder else None
        self._items: list[dict[str, Any]] = []
        self._seen = self._newest_checkpoint()

    def restore(self) -> tuple[int, dict[ModeKeys, int]]:
        """The counters of the item that got furthest; -1 everywhere when there is none."""
        state = read_json(self._folder / STATE) if self._folder else None
        self._items = state if isinstance(state, list) else []
        if not self._items:
            return -1, {ModeKeys.GLOBAL: -1}
        furthest = max(self._items, key=lambda item: int(item["latest-global-step-seen"]))
        modes = {ModeKeys[mode]: int(step) for mode, step in furthest["latest-mode-step"].items()}
        return int(furthest["latest-global-step-seen"]), modes

    def save(self, saved: int, seen: int, mode_steps: dict[ModeKeys, int]) -> None:
        if self._folder is None or self._newest_checkpoint() == self._seen:
            return
        self._items.append(
            {
                "training-run": 1 + max((i.get("training-run", 0) for i in self._items), default=0),
                "latest-global-step-saved": saved,
                "latest-global-step-seen": seen,
                "latest-mode-step": {mode.name: step for mode, step in mode_steps.items()},
            }
        )
        write_json(self._folder / STATE, self._items)
        self._seen = self._newest_checkpoint()

    def _newest_checkpoint(self) -> float:
        if self._folder is None or not self._folder.is_dir():
            return 0.0
        with os.scandir(self._folder) as entries:
            return max(
                (e.stat().st_mtime for e in entries if _IGNORED not in e.name and e.name != STATE),
                default=0.0,
            )
