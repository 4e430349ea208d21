"""The rules of `trackside check`, by what they look at; `ALL` is the list of them."""

from trackside.check.remark import ScriptRule
from trackside.check.rules import (
    adapters,
    checkpoints,
    copies,
    data,
    datasets,
    evaluation,
    models,
    modes,
    objectives,
    patterns,
    schedules,
    updates,
)

ALL: tuple[ScriptRule, ...] = (
    *updates.RULES,
    *schedules.RULES,
    *modes.RULES,
    *data.RULES,
    *models.RULES,
    *checkpoints.RULES,
    *patterns.RULES,
    *evaluation.RULES,
    *datasets.RULES,
    *objectives.RULES,
    *copies.JOINED,
    *adapters.RULES,
)
JOINED: tuple[ScriptRule, ...] = (
    *patterns.JOINED,
    *patterns.ONLY_JOINED,
    *evaluation.JOINED,
    *datasets.JOINED,
    *objectives.JOINED,
    *copies.JOINED,
    *adapters.JOINED,
    *schedules.RULES,
)
"""Those that the check-up joins with what it sees: nothing else shows them."""
