"""Which curves belong in one chart, what the chart and its lines are called, and what comes first.

Pure, and about names and last steps only: the report and the command line draw by it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

MACHINE_RUNS = "system/"
"""Begins the runs with the machine's figures."""
LOG_RUNS = "trackside/"
"""Begins the runs that are made of a job's log and of what its hook says."""

Key = tuple[str, str]
"""Run and tag of a curve."""

_PHASES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "eval", "evaluation", "dev"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}
_MODES = ("TRAIN", "EVAL", "PREDICT", "GLOBAL")
"""By which the hook ends the names of the losses that it files itself."""
_PER = ("step", "epoch")
"""Lightning logs one metric twice: as it comes, and as the epoch's mean."""
_QUALITY = re.compile(
    r"acc|accuracy|f1|auc|precision|recall|iou|dice|map|bleu|rouge|reward|return|r2|top\d?", re.I
)
_COMPARABLE = 2.0
"""Curves whose last steps differ by more are drawn over different things, such as epochs."""


@dataclass(frozen=True, slots=True)
class ChartGroup:
    title: str
    lines: dict[str, Key] = field(default_factory=dict)
    """By the name of each."""

    @property
    def is_of_hook(self) -> bool:
        return all(map(is_of_hook, self.lines.values()))


def is_of_hook(key: Key) -> bool:
    """A loss that the hook found, under its module's name and its mode."""
    run, tag = key
    return run.startswith(LOG_RUNS) and tag.rpartition("_")[2] in _MODES


def groups(last_steps: Mapping[Key, int]) -> list[ChartGroup]:
    """Charts of what a job logged: training and validation of one metric together. Losses first,
    then what says how good the model is, then the rest; the hook's own losses where the script
    has none, else last. The machine's figures are left out."""
    mine = [key for key in last_steps if not key[0].startswith(MACHINE_RUNS)]
    own = [key for key in mine if not is_of_hook(key)]
    hooks = sorted(key for key in mine if is_of_hook(key))
    found = _grouped(own, last_steps)
    found.sort(key=lambda group: (_rank(group.title), group.title))
    of_hook = [ChartGroup(tag, {tag: (run, tag)}) for run, tag in hooks]
    has_loss = any(_rank(group.title) == 0 for group in found)
    return [*found, *of_hook] if has_loss else [*of_hook, *found]


def headline(last_steps: Mapping[Key, int], most: int = 4) -> list[tuple[str, Key]]:
    """The curves whose last values stand for a job, with their names: what says how good the model
    is before losses, validation before training."""
    mine = [key for key in last_steps if not key[0].startswith(MACHINE_RUNS)]
    own = [key for key in mine if not is_of_hook(key)]
    chosen = [key for key in own if _rank(key[1]) < 2] or [k for k in mine if is_of_hook(k)]

    def order(key: Key) -> tuple[bool, int, bool, str]:
        phase, _, per = _parsed(key[1])
        is_loss = _rank(key[1]) == 0
        return is_loss, ("validation", "test", "", "train").index(phase), per == "step", key[1]

    by_name: dict[str, Key] = {}
    for key in sorted(chosen, key=order):
        by_name.setdefault(key[1], key)  # of several runs the first
    return [*by_name.items()][:most]


def _grouped(keys: list[Key], last_steps: Mapping[Key, int]) -> list[ChartGroup]:
    together: dict[str, list[Key]] = {}
    for key in sorted(keys):
        _, base, _ = _parsed(key[1])
        for name in (base, key[1]):
            there = together.get(name)
            if there is None or _is_comparable(key, there, last_steps):
                together.setdefault(name, []).append(key)
                break
        else:
            together[f"{key[1]} ({key[0]})"] = [key]
    return [_named(name, members) for name, members in together.items()]


def _is_comparable(key: Key, others: list[Key], last_steps: Mapping[Key, int]) -> bool:
    ends = [last_steps[key], *(last_steps[other] for other in others)]
    return max(ends) <= _COMPARABLE * max(min(ends), 1)


def _named(name: str, members: list[Key]) -> ChartGroup:
    tags, runs = {tag for _, tag in members}, {run for run, _ in members}
    title = name if len(tags) > 1 or name.startswith(members[0][1]) else members[0][1]
    lines: dict[str, Key] = {}
    order = {key: _parsed(key[1])[0] != "train" for key in members}
    for run, tag in sorted(members, key=lambda key: (order[key], key)):
        phase, _, per = _parsed(tag)
        of_tag = " per ".join(filter(None, [phase or "all", per])) if len(tags) > 1 else ""
        of_run = "log" if run.startswith(LOG_RUNS) else run
        name = " ".join(filter(None, [of_tag, of_run if len(runs) > 1 or not of_tag else ""]))
        lines[name if name not in lines else f"{name} {tag}"] = (run, tag)
    return ChartGroup(title, lines)


def _parsed(tag: str) -> tuple[str, str, str]:
    """Phase ("" without one), name without it, and "step" or "epoch" for one of two such curves:
    `train/loss`, `val_loss`, `loss/train`, `train_loss_epoch`."""
    parts = re.split(r"([/_. -])", tag)
    places = [at for at, part in enumerate(parts) if part.lower() in _PHASES]
    phase = ""
    if len(places) == 1 and len(parts) > 1:
        at = places[0]
        phase = _PHASES[parts[at].lower()]
        first = max(at - 1, 0)
        del parts[first : first + 2]
    per = ""
    if phase and len(parts) > 2 and parts[-1] in _PER and parts[-2] == "_":
        per = parts[-1]
        del parts[-2:]
    return phase, "".join(parts), per


def _rank(tag: str) -> int:
    name = tag.lower()
    if "loss" in name or name in ("nll", "perplexity", "ppl"):
        return 0
    words = re.split(r"[/_. -]", name)
    return 1 if any(_QUALITY.fullmatch(word) for word in words) else 2
