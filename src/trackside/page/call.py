"""One request to the page's API as its routes see it, and what they return.

A route is a plain function of a `Call`; it may block, so it never runs on the event loop.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Event
from typing import Any

from trackside.page.access import Access, Person
from trackside.page.problems import BadRequest, NotAllowed
from trackside.quick_dataclass import dataclass
from trackside.records.rights import Rights

_SHOWN = 80
TEXT_MOST = 4096
NAMES_MOST = 2000
"""Jobs in one request."""


class Query:
    """The parameters of an address: texts, read as what they should be."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, name: str, default: str = "", *, most: int = TEXT_MOST) -> str:
        found = self._values.get(name, default)
        if len(found) > most:
            raise BadRequest(f"{name} has {len(found)} characters; at most {most} are possible.")
        return found

    def names(self, name: str, *, most: int = 500) -> list[str]:
        """Texts with commas between them."""
        found = [each for each in self.text(name, most=65536).split(",") if each]
        if len(found) > most:
            raise BadRequest(f"{name} has {len(found)} names; at most {most} are possible.")
        return found

    def integer(self, name: str, default: int, *, low: int = 0, high: int = 2**53) -> int:
        text = self._values.get(name, "")
        if not text:
            return default
        try:
            found = int(text)
        except ValueError:
            raise _wrong(name, text, "a whole number") from None
        return _within(name, found, low, high)

    def number(self, name: str) -> float | None:
        text = self._values.get(name, "")
        if not text:
            return None
        try:
            found = float(text)
        except ValueError:
            raise _wrong(name, text, "a number") from None
        return _finite(name, found)

    def flag(self, name: str, default: bool = False) -> bool:
        text = self._values.get(name, "")
        if text not in ("", "0", "1"):
            raise _wrong(name, text, "0 or 1")
        return text == "1" if text else default

    def choice(self, name: str, known: Sequence[str], default: str) -> str:
        return _chosen(name, self._values.get(name) or default, known)


class Body:
    """The members of a JSON object."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def text(self, name: str, default: str | None = None, *, most: int = TEXT_MOST) -> str:
        """Needed, if there is no default."""
        found = self._values.get(name, default)
        if not _is_name(found, most):
            raise _wrong(name, found, f"a text of at most {most} characters")
        return str(found)

    def flag(self, name: str, default: bool = False) -> bool:
        found = self._values.get(name, default)
        if not isinstance(found, bool):
            raise _wrong(name, found, "true or false")
        return found

    def integer(
        self, name: str, default: int | None = None, *, low: int = 0, high: int = 2**53
    ) -> int:
        """Needed, if there is no default."""
        found = self._values.get(name, default)
        if type(found) is not int:
            raise _wrong(name, found, "a whole number")
        return _within(name, found, low, high)

    def optional_integer(self, name: str, *, low: int = 0, high: int = 2**53) -> int | None:
        return None if self._values.get(name) is None else self.integer(name, low=low, high=high)

    def number(self, name: str) -> float | None:
        found = self._values.get(name)
        if found is None:
            return None
        if type(found) not in (int, float):
            raise _wrong(name, found, "a number")
        return _finite(name, float(found))

    def choice(self, name: str, known: Sequence[str]) -> str:
        return _chosen(name, self._values.get(name), known)

    def names(self, name: str, *, most: int = NAMES_MOST, default: bool = False) -> list[str]:
        """A list of texts; with `default` it may be missing, else it has at least one."""
        found = self._values.get(name, [] if default else None)
        is_list = isinstance(found, list) and all(_is_name(each) for each in found)
        if not is_list or not (default or found) or len(found) > most:
            raise _wrong(name, found, f"a list of 1 to {most} texts")
        return list(dict.fromkeys(found))

    def texts(self, name: str, *, most: int = 200, may_be_null: bool = False) -> dict[str, Any]:
        """An object of texts; `may_be_null` allows null among them."""
        found = self._values.get(name, {})
        is_object = isinstance(found, dict) and len(found) <= most
        if not is_object or not all(_is_text(v, may_be_null) for v in found.values()):
            raise _wrong(name, found, f"an object of at most {most} texts")
        return dict(found)

    @property
    def whole(self) -> Mapping[str, Any]:
        """For views that check it themselves."""
        return self._values

    def objects(self, name: str, *, most: int) -> list["Body"]:
        """A list of objects, at least one."""
        found = self._values.get(name, ())
        is_list = isinstance(found, list) and 0 < len(found) <= most
        if not is_list or not all(isinstance(each, dict) for each in found):
            raise _wrong(name, found, f"a list of 1 to {most} objects")
        return [Body(each) for each in found]


@dataclass(frozen=True, slots=True)
class Call:
    person: Person
    access: Access
    names: Mapping[str, str]
    """The variable parts of the path."""
    query: Query
    body: Body
    stop: Event
    """Set when the client has gone."""

    @property
    def job(self) -> str:
        return self.names["name"]

    def check_may_change(self, job: str) -> None:
        """`NotAllowed` unless this person may; `JobNotFound` without the job."""
        if why := self.access.why_not(self.person, job):
            raise NotAllowed(why)


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Lines:
    """JSON values, sent one by one, a line each."""

    values: Iterator[Any]
    cancel: Callable[[], None] = _nothing
    """Makes the iterator end soon, from another thread."""
    close: Callable[[], None] = _nothing
    """Called at the end, when nobody iterates."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Binary frames, sent one by one."""

    values: Iterator[bytes]
    cancel: Callable[[], None] = _nothing
    close: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class Download:
    """A file, sent as an attachment."""

    name: str
    size: int | None
    values: Iterator[bytes]
    cancel: Callable[[], None] = _nothing
    close: Callable[[], None] = _nothing


Streamed = Lines | Frames | Download
Answer = Mapping[str, Any] | bytes | Streamed
"""JSON; a binary frame; or what is sent piece by piece."""


@dataclass(frozen=True, slots=True)
class Api:
    """A route below /ui/api/."""

    method: str
    path: str
    run: Callable[[Call], Answer]
    needs: Rights = Rights.READ
    is_heavy: bool = False
    """Whether it reads so much that other requests must not wait for it."""


def to_json(value: Any) -> bytes:
    """Numbers that JSON lacks become texts."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite_only(value), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _finite_only(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite_only(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite_only(each) for each in value]
    return value


def _is_name(value: Any, most: int = TEXT_MOST) -> bool:
    """JSON can escape halves of characters, which no file or terminal takes."""
    if not isinstance(value, str) or len(value) > most:
        return False
    return value.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in value)


def _is_text(value: Any, may_be_null: bool) -> bool:
    return (value is None and may_be_null) or _is_name(value)


def _chosen(name: str, found: Any, known: Sequence[str]) -> str:
    if not isinstance(found, str) or found not in known:
        raise _wrong(name, found, f"one of {', '.join(known)}")
    return found


def _within(name: str, found: int, low: int, high: int) -> int:
    if not low <= found <= high:
        raise _wrong(name, found, f"between {low} and {high}")
    return found


def _finite(name: str, found: float) -> float:
    if not math.isfinite(found):
        raise _wrong(name, found, "a finite number")
    return found


def _wrong(name: str, found: Any, wanted: str) -> BadRequest:
    shown = repr(found)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return BadRequest(f"{name} is {shown}; it should be {wanted}.")
