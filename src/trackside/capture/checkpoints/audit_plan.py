"""What one run of an audit has to do: a file that its process reads."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class AuditPlan:
    record: Path
    """JSON lines, appended to."""
    seed: int = 0
    """Of the generators at the start; a script's own seed comes later."""
    stops_at: int | None = None
    """Ends at the first update after so many checkpoints."""
    passes: int | None = None
    """Ends `fewest` updates and one checkpoint behind this checkpoint."""
    fewest: int = 10
    num_steps: int | None = None
    """Ends after so many updates."""

    def write(self, path: Path) -> None:
        path.write_text(json.dumps({**asdict(self), "record": str(self.record)}))

    @classmethod
    def read(cls, path: Path) -> "AuditPlan":
        content: dict[str, Any] = json.loads(path.read_text())
        plan = cls(**content)
        return replace(plan, record=Path(plan.record))
