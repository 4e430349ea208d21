"""Conditions and sort keys for a list of jobs, as typed: `lr>0.01`, `team=vision`, `2d`. Pure."""

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from trackside.errors import InputError

Value = str | float
"""The value of a hyperparameter, a tag or a metric."""

_FORM = re.compile(r"\s*(?P<name>.+?)\s*(?P<sign><=|>=|!=|==|=|<|>)\s*(?P<value>.*?)\s*")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EQUALITY = ("=", "==", "!=")
_AGO = re.compile(r"(?P<count>\d+(\.\d+)?)\s*(?P<unit>[a-z]+)")
_SPELLINGS = {
    1: ("s", "sec", "second"),
    60: ("m", "min", "minute"),
    3600: ("h", "hr", "hour"),
    86400: ("d", "day"),
    7 * 86400: ("w", "week"),
}
_UNITS = {word: seconds for seconds, words in _SPELLINGS.items() for word in words}
_OVERRIDE = re.compile(r"[+~]*(?P<name>[A-Za-z_][\w./@-]*)=(?P<value>.*)", re.DOTALL)
_KINDS = ("param", "tag", "metric")


@dataclass(frozen=True, slots=True)
class Name:
    """Of a hyperparameter, a tag or a metric; `kind` only if typed: `metric.loss`."""

    text: str
    kind: str = ""

    @classmethod
    def parse(cls, typed: str) -> "Name":
        kind, _, text = typed.partition(".")
        return cls(text, kind) if kind in _KINDS and text else cls(typed)

    def __str__(self) -> str:
        return f"{self.kind}.{self.text}" if self.kind else self.text


@dataclass(frozen=True, slots=True)
class Condition:
    name: Name
    sign: str = ""
    """Empty if any value matches."""
    value: str = ""

    def fits(self, held: Value | None) -> bool:
        """A job without the name never matches."""
        if held is None or not self.sign:
            return held is not None
        one, other = as_number(held), as_number(self.value)
        if one is not None and other is not None:
            return _COMPARE[self.sign](one, other)
        return self.sign in _EQUALITY and _COMPARE[self.sign](plain_text(held), self.value)


def parse_condition(text: str) -> Condition:
    parts = _FORM.fullmatch(text)
    if parts is None:
        advice = "is no condition. Write one like 'lr>0.01', 'val_loss<=0.3' or 'optimizer=adam'."
        raise InputError(f"{text!r} {advice}")
    return Condition(Name.parse(parts["name"]), parts["sign"], parts["value"])


def parse_of_kind(kind: str, given: Sequence[str]) -> list[Condition]:
    """Of the form NAME or NAME=VALUE."""
    parts = [text.partition("=") for text in given]
    return [Condition(Name(name, kind), sign, value) for name, sign, value in parts]


def parse_moment(text: str, now: datetime) -> datetime:
    """A duration before now, or a date."""
    found = moment(text, now)
    if found is None:
        advice = (
            "is no time. Write one like 30min, 12h, 2d, 1w, today, 2026-11-15 or 2026-11-15T14:30."
        )
        raise InputError(f"{text!r} {advice}")
    return found


def moment(text: str, now: datetime) -> datetime | None:
    typed = text.strip().lower()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if typed in ("today", "yesterday"):
        return midnight - timedelta(days=1 if typed == "yesterday" else 0)
    ago = _AGO.fullmatch(typed)
    unit = _unit(ago["unit"]) if ago else None
    try:
        if ago and unit:
            return now - timedelta(seconds=float(ago["count"]) * unit)
        return datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        return None


def _unit(word: str) -> int | None:
    return _UNITS.get(word) or _UNITS.get(word.removesuffix("s"))


def span_seconds(text: str) -> float | None:
    """A duration: `90`, `30min`, `1h30m`."""
    typed = text.strip().lower()
    if (plain := as_number(typed)) is not None:
        return plain
    parts = list(_AGO.finditer(typed))
    units = [_unit(part["unit"]) for part in parts]
    if not parts or "".join(part[0] for part in parts) != typed or None in units:
        return None
    return sum(float(part["count"]) * unit for part, unit in zip(parts, units, strict=True) if unit)


def as_number(value: Value) -> float | None:
    if isinstance(value, float | int):
        return float(value)
    try:
        return float(plain_text(value))
    except ValueError:
        return None


def plain_text(value: Value) -> str:
    """A text as the script gets it: some clients send it in quotes."""
    text = f"{value:.6g}" if isinstance(value, float) else value
    if text.startswith('"') and text.endswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            return text
    return text


def as_parameters(arguments: Sequence[str]) -> Mapping[str, str]:
    """Parameters in a script's arguments: `--lr 0.1`, `--lr=0.1`, `model.lr=0.1`, `--amp`."""
    return _parsed(arguments)[0]


def unnamed_words(arguments: Sequence[str]) -> Sequence[str]:
    """What of a script's arguments is no parameter: names of files and commands."""
    return _parsed(arguments)[1]


def _parsed(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    found: dict[str, str] = {}
    unnamed: list[str] = []
    flag = ""
    for word in arguments:
        name, is_given, value = word.partition("=")
        if word.startswith("-") and not _is_negative(word):
            flag = "" if is_given else word.lstrip("-")
            found[name.lstrip("-")] = value if is_given else "true"
        elif override := _OVERRIDE.fullmatch(word):
            found[override["name"]], flag = override["value"], ""
        elif flag:
            found[flag], flag = word, ""
        else:
            unnamed.append(word)
    return found, unnamed


def _is_negative(word: str) -> bool:
    return as_number(word) is not None
