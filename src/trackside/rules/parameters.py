"""The parameters of built-in rules: declared as fields, given as texts, checked all at once."""

import dataclasses
import difflib
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from trackside.capture.modes import ModeKeys
from trackside.quick_dataclass import dataclass

_SET_BY_THE_PLATFORM = re.compile(
    r"rule_to_invoke|base_trial|other_trials?(_\d+)?|action_json|scan_interval_us"
)
_UNSET = ("", "None", "none", "null")

Pattern = Annotated[str, "a regular expression"]
"""Of a parameter that names are searched with: one that is no pattern is refused."""
Mode = Annotated[str, "a mode"]
"""Of one that is the name of a `ModeKeys`, in any letter case."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Parameter:
    """As `trackside rules` and the documentation show it."""

    name: str
    type: str
    default: Any
    doc: str


def has_own(parameters: Iterable[str]) -> bool:
    """Whether any of them, by name, is the rule's and not the platform's."""
    return not all(_SET_BY_THE_PLATFORM.fullmatch(name) for name in parameters)


class InvalidParameters(ValueError):
    """All that is wrong with one rule's parameters, a sentence each."""

    def __init__(self, problems: list[str], advice: Mapping[str, str] | None = None) -> None:
        self.problems = tuple(problems)
        self.advice = dict(advice or {})
        """The same by parameter, for those who show its name and value themselves."""
        super().__init__(" ".join(problems))


def parameter(
    default: Any, doc: str, *, at_least: float | None = None, at_most: float | None = None
) -> Any:
    """A field of a rule that the user may set; its annotation says how the text is read."""
    limits = (at_least, at_most)
    return dataclasses.field(default=default, metadata={"doc": doc, "limits": limits})


def parameters_of(rule: type) -> tuple[Parameter, ...]:
    hints = get_type_hints(rule, include_extras=True)
    return tuple(
        Parameter(field.name, _type_name(hints[field.name]), field.default, field.metadata["doc"])
        for field in _fields(rule)
    )


def build(rule: type[_T], texts: Mapping[str, str]) -> _T:
    """The rule with these parameters, named in any letter case; `InvalidParameters` names each that
    it does not take."""
    hints = get_type_hints(rule, include_extras=True)
    known = {field.name: field for field in _fields(rule)}
    names = {name.lower(): name for name in known}
    texts = {names.get(name.lower(), name): text for name, text in texts.items()}
    given: dict[str, Any] = {}
    problems: list[str] = []
    advice: dict[str, str] = {}
    for name, text in _with_other_trials(texts).items():
        if name in known:
            try:
                given[name] = _parse(text, hints[name], *known[name].metadata["limits"])
            except ValueError as error:
                advice[name] = str(error)
                problems.append(f"{name} = {text!r}: {error}.")
        elif not _SET_BY_THE_PLATFORM.fullmatch(name):
            advice[name] = _unknown(name, rule.__name__, list(known))
            problems.append(advice[name])
    if problems:
        raise InvalidParameters(problems, advice)
    return rule(**given)


def other_trials(texts: Mapping[str, str]) -> list[str]:
    """Locations of the trials to compare with: SageMaker's SDK sends them as `other_trial_0`,
    `other_trial_1` and so on."""
    numbered = {
        int(matched[1]): text
        for name, text in texts.items()
        if (matched := re.fullmatch(r"other_trial_(\d+)", name))
    }
    return [numbered[number] for number in sorted(numbered)]


def trial_locations(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The parameters that say where trials are, in any spelling, each with each place it names."""
    for name, text in texts.items():
        if re.fullmatch(r"other_trials?(_\d+)?", name.lower()):
            yield from ((name, place) for place in _split(text))


def parse_list_from_str(arg: str | Sequence[str] | None, delimiter: str = ",") -> list[str]:
    """ "a, b" to ["a", "b"]; None and "" to an empty list; a list to itself."""
    if arg is None:
        return []
    if isinstance(arg, str):
        return [part.strip() for part in arg.split(delimiter) if part.strip()]
    if not isinstance(arg, list):
        raise TypeError(f"{arg!r} is neither a string nor a list of strings.")
    return list(arg)


def parse_bool(arg: str | bool | None, default: bool = False) -> bool:
    """True and "True" in any case; the default for None."""
    if arg is None:
        return default
    if isinstance(arg, bool):
        return arg
    if isinstance(arg, str) and arg.strip().lower() in ("true", "false"):
        return arg.strip().lower() == "true"
    raise ValueError(f"{arg!r} is neither 'True' nor 'False'.")


def _with_other_trials(texts: Mapping[str, str]) -> dict[str, str]:
    others = other_trials(texts)
    if not others:
        return dict(texts)
    return {**texts, "other_trials": ",".join(filter(None, [texts.get("other_trials"), *others]))}


def _fields(rule: type) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(rule) if "doc" in field.metadata]


def _unknown(name: str, rule: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    has = f"It has: {', '.join(known)}." if known else "It has none."
    return f"{rule} has no parameter {name!r}.{meant} {has}"


def _parse(text: str, hint: Any, at_least: float | None, at_most: float | None) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        if text.strip() in _UNSET:
            return None
        hint = next(each for each in get_args(hint) if each is not type(None))
    if get_origin(hint) is tuple:
        element = get_args(hint)[0]
        return tuple(_parse(part, element, at_least, at_most) for part in _split(text))
    value = _PARSERS[hint](text.strip())
    if isinstance(value, int | float) and not isinstance(value, bool):
        if at_least is not None and not value >= at_least:
            raise ValueError(f"at least {at_least:g} is needed")
        if at_most is not None and not value <= at_most:
            raise ValueError(f"at most {at_most:g} is possible")
    return value


def _split(text: str) -> list[str]:
    return [] if text.strip() in _UNSET else [part.strip() for part in text.split(",")]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number is needed") from None


def _whole(text: str) -> int:
    value = _number(text)
    if value != int(value):
        raise ValueError("a whole number is needed")
    return int(value)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("'True' or 'False' is needed")
    return text.lower() == "true"


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"this is not a regular expression ({error})") from None
    return text


def _mode(text: str) -> str:
    if text.upper() not in ModeKeys.__members__:
        raise ValueError(f"one of {', '.join(ModeKeys.__members__)} is needed")
    return text.upper()


_PARSERS: dict[Any, Callable[[str], Any]] = {
    float: _number,
    int: _whole,
    bool: _boolean,
    str: str,
    Pattern: _pattern,
    Mode: _mode,
}
_NAMES: dict[Any, str] = {
    float: "number",
    int: "whole number",
    bool: "True or False",
    str: "text",
    Pattern: "pattern",
    Mode: "mode",
}


def _type_name(hint: Any) -> str:
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(each for each in get_args(hint) if each is not type(None))
    if get_origin(hint) is tuple:
        return f"{_type_name(get_args(hint)[0])}, or several with commas"
    return _NAMES[hint]
