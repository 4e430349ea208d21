"""What makes findings of several jobs the same problem: the cause, the layer with its indices
folded, and the line of code where it is known.
"""

import json
import re
from dataclasses import dataclass
from hashlib import sha256

from trackside.records.finding import Finding
from trackside.rules.checkup.diagnosis import Diagnosis

VERSION = 1
"""Of the way in which findings are grouped. With another one, all ids are new and states of issues
no longer apply."""
_DIGITS = 12
_MOST_PLACE = 200
_ACTIVATION = re.compile(r"vitals/activation/(?P<layer>.+)/[a-z_0-9]+", re.DOTALL)
_PREFIX = re.compile(r"(?:gradient|weight|bias|vitals)/")
_FIGURE = re.compile(r"(?:_(?:in|out)put_\d+|:\d+)$")
_PARAMETER = re.compile(r"(?<=.)[./](?:weight|bias|kernel|gamma|beta)$")
_WRAPPERS = frozenset(
    {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module"}
)
_AROUND = re.compile(r"^algo-\d+: | \(exit code -?\d+\)$")
_EXCEPTION = re.compile(
    r"(?P<name>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Iteration|Warning))"
    r"(?=[:,\s]|$)"
)
_CODE_PLACE = re.compile(
    r", at (?P<file>[^\s:,]+):(?P<line>\d+)(?: in (?P<function>[\w<>.]+))?"
    r"(?:: (?P<source>.*?))?(?=, caused by |, while handling |$)",
    re.MULTILINE,
)
_SCRIPT_LINE = re.compile(r"[^\s:]+\.(?:py|ipynb):\d+")
_VALUES = re.compile(r"0x[0-9a-fA-F]+|\d[\d.,]*|'[^'\n]*'|\"[^\"\n]*\"")
_KINDS = {
    "Out of memory": "OutOfMemory",
    "OutOfMemory": "OutOfMemory",
    "No space left on device": "DiskFull",
    "Data download failed": "DataNotFound",
    "InternalServerError": "InternalServerError",
}
_SIGNAL = re.compile(r"\bSIG[A-Z]{3,7}\b")
_NUMBERED = re.compile(r"_\d+$")
_PARTS = re.compile(r"([./])")


def issue_id(found: Finding | Diagnosis, line: str = "") -> str:
    """The issue that it belongs to; `line` is the `group` of a `CodeLine`, if it is known."""
    file = script_line_of(found).rpartition(":")[0]
    return id_of(cause_of(found), place_of(found), line or file)


def id_of(cause: str, place: str, line: str = "") -> str:
    content = json.dumps([VERSION, cause, place, line]).encode()
    return f"{VERSION}-{sha256(content).hexdigest()[:_DIGITS]}"


def cause_of(found: Finding | Diagnosis) -> str:
    """The rule that found it."""
    return found.rule if isinstance(found, Finding) else found.cause


def place_of(found: Finding | Diagnosis) -> str:
    """The layer with its indices folded; empty when it concerns the training, the machine or a
    line of the script."""
    first = found if isinstance(found, Finding) else found.findings[0]
    return "" if first.is_profiler or script_line_of(found) else folded(found.tensor)


def script_line_of(found: Finding | Diagnosis) -> str:
    """`train.py:41` of what names this instead of a tensor; else empty."""
    return found.tensor if _SCRIPT_LINE.fullmatch(found.tensor) else ""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job failed, as one kind of problem."""

    cause: str
    """The exception's name, or what kind of failure it was."""
    line: str
    """`train.py:41`; empty if it is not known."""
    group: str
    """The line in a form that stays the same when lines above it change."""
    text: str

    @property
    def issue(self) -> str:
        """The id of the issue that it belongs to."""
        return id_of(self.cause, "", self.group)


def failure_of(reason: str) -> Failure:
    """From what `failure_reason.in_short` made of a FailureReason."""
    text = _AROUND.sub("", reason).strip()
    named = _EXCEPTION.match(text)
    cause = named["name"].rpartition(".")[2] if named else _kind_of_failure(text)
    place = _CODE_PLACE.search(text)
    if place is None:
        return Failure(cause, "", _VALUES.sub("*", text)[:_MOST_PLACE], text)
    function, source = place["function"] or "", place["source"] or ""
    group = f"{place['file']} in {function}: {source}"[:_MOST_PLACE]
    return Failure(cause, f"{place['file']}:{place['line']}", group, text)


def _kind_of_failure(text: str) -> str:
    for part, kind in _KINDS.items():
        if part in text:
            return kind
    signal = _SIGNAL.search(text)
    return signal[0] if signal else "ScriptFailed"


def folded(tensor: str) -> str:
    """`gradient/layers.0.mlp.up.weight` is `layers.*.mlp.up`, whichever tool wraps the model."""
    name = tensor[:_MOST_PLACE]
    if activation := _ACTIVATION.fullmatch(name):
        name = activation["layer"]
    name = name[found.end() :] if (found := _PREFIX.match(name)) else name
    parts = _PARTS.split(_PARAMETER.sub("", _FIGURE.sub("", name)))
    kept: list[str] = []
    for part, separator in zip(parts[::2], [*parts[1::2], ""], strict=True):
        if part not in _WRAPPERS or not separator:
            kept += [_without_index(part), separator]
    return "".join(kept)


def _without_index(part: str) -> str:
    return "*" if part.isdecimal() else _NUMBERED.sub("_*", part)
