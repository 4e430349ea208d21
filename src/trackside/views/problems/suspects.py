"""What may have caused an issue: what changed between the last healthy job of a script and the
first sick one, the likeliest first.

How they are ranked is explained in docs/issues.md.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from trackside.errors import TracksideError
from trackside.rules import catalog
from trackside.rules.rule_kinds import Kind
from trackside.texts.truncation import shortened
from trackside.views.job_setup.code_diff import FileDiff, Hunk, code_diff
from trackside.views.job_setup.code_files import contents_of
from trackside.views.job_setup.made_of import (
    ARGUMENT,
    HYPERPARAMETER,
    Key,
    differences,
    made_of,
)
from trackside.views.problems.job_findings import Seen

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

CODE = "code"
MOST_SUSPECTS = 50
_MOST_TEXT = 300
_NEAR_LINES = 10
_FRAMEWORKS = re.compile(
    r"torch.*|pytorch-.*|lightning.*|transformers|accelerate|deepspeed|tensorflow.*|keras|jax.*|flax"
    r"|optax|numpy|nvidia-.*|triton|xgboost|timm|datasets|tokenizers|apex|bitsandbytes|peft|trl"
)
_ABBREVIATIONS = {
    "lr": "learning rate",
    "wd": "weight decay",
    "bs": "batch",
    "clip": "clipping",
    "amp": "float16",
    "fp16": "float16",
    "half": "float16",
    "warmup": "warm-up",
    "sched": "learning rate",
    "scheduler": "learning rate",
    "opt": "optimizer",
    "optim": "optimizer",
    "temp": "temperature",
    "drop": "dropout",
    "pad": "padding",
    "init": "initial",
    "norm": "normalis",
    "accum": "accumulat",
    "std": "normalis",
    "workers": "load",
}
"""Of words in names and in code, as rules write them."""
_GENERAL = frozenset(
    {
        *("model", "loss", "train", "training", "step", "steps", "torch", "value", "values"),
        *("number", "size", "print", "import", "from", "self", "return", "with", "true", "false"),
    }
)
"""Words that say little about a cause."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[a-z]+\d+")
_ABOUT_DATA = re.compile(r"Input|Label|Target|Class|Batch|Sample|Data|Padding|Epoch|Overfit|Image")


@dataclass(frozen=True, slots=True)
class Suspect:
    kind: str
    """code, hyperparameter, package, data, host, environment or git."""
    name: str
    """A file and line, a hyperparameter, a package, a channel, …"""
    before: str
    """In the healthy job; empty if it had none."""
    after: str


def find_suspects(jobs: "JobReader", healthy: str, sick: str, seen: Seen) -> list[Suspect]:
    found = [*_of_settings(differences(made_of(jobs, healthy), made_of(jobs, sick)))]
    found += of_code(_code_diff(jobs, healthy, sick))
    return ranked(found, seen)


def code_id(jobs: "JobReader", name: str) -> str:
    """What identifies the code of a job: a digest of its files, or its commit."""
    described = jobs.describe(name)
    git = described["Trackside"]["options"].get("Git") or {}
    try:
        contents = contents_of(described, jobs.settings.home)
    except TracksideError:
        contents = {}
    if not contents:
        return str(git.get("Commit") or "")
    lines = "".join(f"{path}\0{contents[path].digest}\n" for path in sorted(contents))
    return sha256(lines.encode(errors="surrogateescape")).hexdigest()


def ranked(found: Iterable[Suspect], seen: Seen) -> list[Suspect]:
    """At most `MOST_SUSPECTS`. Pure."""
    about = _About(seen)
    return sorted(found, key=about.weight, reverse=True)[:MOST_SUSPECTS]


class _About:
    """What a problem is about, to weigh what may have caused it."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        entry = catalog.entries().get(seen.cause)
        texts = [_spaced(seen.cause), seen.message, seen.advice]
        if entry is not None:
            texts += [entry.doc, entry.advice]
        self._text = " ".join(texts).lower()
        self._is_of_machine = entry is not None and entry.kind is Kind.MACHINE
        self._is_of_data = _ABOUT_DATA.search(seen.cause) is not None

    def weight(self, suspect: Suspect) -> int:
        match suspect.kind:
            case "code":
                return self._of_code(suspect)
            case "hyperparameter":
                return 90 if self._concerns(suspect.name) else 70
            case "data":
                return 85 if self._is_of_data else 50
            case "package":
                return 45 if _FRAMEWORKS.fullmatch(suspect.name) else 20
            case "environment":
                return 65 if self._concerns(suspect.name) else 40
            case "host":
                return self._of_host(suspect)
            case _:
                return 10

    def _of_code(self, suspect: Suspect) -> int:
        if self._is_at_line(suspect):
            return 100
        changed = f"{suspect.before} {suspect.after}"
        return 80 if self._concerns(changed) or self._names_layer(changed) else 60

    def _of_host(self, suspect: Suspect) -> int:
        if self._is_of_machine:
            return 85
        return 30 if suspect.name in ("gpus", "driver", "memory") else 15

    def _is_at_line(self, suspect: Suspect) -> bool:
        file, _, line = suspect.name.rpartition(":")
        known_file, _, known = self._seen.line.rpartition(":")
        if not known_file or file != known_file or not (line.isdigit() and known.isdigit()):
            return False
        return abs(int(line) - int(known)) <= _NEAR_LINES

    def _names_layer(self, text: str) -> bool:
        """Whether a changed line has the layer that is sick in it: `up` of `layers.*.mlp.up`."""
        layer = self._seen.place.rpartition(".")[2].strip("*")
        return len(layer) > 1 and re.search(rf"\b{re.escape(layer)}\b", text) is not None

    def _concerns(self, text: str) -> bool:
        words = {word.lower() for word in _WORD.findall(text)} - _GENERAL
        return any(
            re.search(rf"\b{re.escape(_ABBREVIATIONS.get(word, word))}", self._text) is not None
            for word in words
            if word in _ABBREVIATIONS or len(word) > 3
        )


def _of_settings(found: Iterable[tuple[Key, str, str]]) -> Iterator[Suspect]:
    """Arguments of the script are its hyperparameters, too."""
    for (kind, name), before, after in found:
        yield Suspect(HYPERPARAMETER if kind == ARGUMENT else kind, name, before, after)


def _code_diff(jobs: "JobReader", healthy: str, sick: str) -> list[FileDiff]:
    try:
        return code_diff(jobs, healthy, sick)
    except TracksideError:
        return []


def of_code(files: Sequence[FileDiff]) -> Iterator[Suspect]:
    for file in files:
        if file.status != "changed" or not file.hunks:
            texts = ("", "new file") if file.status == "added" else ("", f"{file.status} file")
            yield Suspect(CODE, file.path, *texts)
            continue
        for hunk in file.hunks:
            yield _of_hunk(file.path, hunk)


def _of_hunk(path: str, hunk: Hunk) -> Suspect:
    """Named by the line of the first change in the sick job's file."""
    signs = [sign for sign, _ in hunk.lines]
    first = next(index for index, sign in enumerate(signs) if sign != " ")
    line = hunk.new + sum(sign != "-" for sign in signs[:first])
    old, new = (
        shortened("\n".join(text for sign, text in hunk.lines if sign == wanted), _MOST_TEXT)
        for wanted in "-+"
    )
    return Suspect(CODE, f"{path}:{line}", old, new)


def _spaced(name: str) -> str:
    """`learning rate zero` of `LearningRateZero`."""
    return " ".join(_WORD.findall(name))
