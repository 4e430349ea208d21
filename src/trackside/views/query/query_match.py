"""Turns the parts of a query into functions that judge a job's values. Pure.

A job without a value never matches, whatever the sign; `-` reverses that.
"""

import math
import operator
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from trackside.errors import BadQuery
from trackside.views.query.linear_pattern import LinearPattern
from trackside.views.query.pattern_syntax import PatternError
from trackside.views.query.query_fields import FIELD, FIELDS, RUNNING, WORDS, Kind
from trackside.views.query.query_tree import Pattern, Term, Text
from trackside.views.query.search_conditions import (
    Value,
    as_number,
    moment,
    plain_text,
    span_seconds,
)

Judge = Callable[[Value], bool]
"""Of one value; of several that a job has, one must match."""

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ":": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ORDER = ("<", "<=", ">", ">=")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}|today|yesterday", re.IGNORECASE)
_IN_PROGRESS = "InProgress"


def judge_of(term: Term, now: datetime) -> Judge:
    """`BadQuery` for a value that the name cannot have."""
    kind = FIELDS[term.name.text] if term.name.kind == FIELD else None
    if isinstance(term.values, Pattern) or term.sign == "~":
        return text_judge(_what(term), term.value_at + 1)
    if kind is Kind.MOMENT:
        return _any_of(term, lambda value: _moment(term, value.text, now))
    if kind in (Kind.NUMBER, Kind.SPAN, Kind.SHARE):
        return _any_of(term, lambda value: _number(term, value.text, kind))
    if kind is not None and term.sign in _ORDER:
        raise BadQuery(
            f"`{term.name.text}` is a text, and `{term.sign}` compares numbers.",
            f"Write one like {term.name.text}:VALUE or {term.name.text}~/PATTERN/.",
            term.at,
        )
    if kind is Kind.WORD:
        return _any_of(term, lambda value: _word(term, value))
    return _any_of(term, lambda value: _named(term, value))


def text_judge(what: Text | Pattern, at: int) -> Judge:
    """Whether a text contains this, ignoring case; or matches it."""
    if isinstance(what, Text):
        part = what.text.casefold()
        return lambda held: part in plain_text(held).casefold()
    try:
        pattern = LinearPattern(what.text, ignores_case=what.ignores_case)
    except PatternError as error:
        raise _no_pattern(what, error, at) from None

    def judge(held: Value) -> bool:
        try:
            return pattern.search(plain_text(held))
        except PatternError as error:
            raise _no_pattern(what, error, at) from None

    return judge


def _no_pattern(what: Pattern, error: PatternError, at: int) -> BadQuery:
    advice = "Write one like /bert-(base|large)/ or /seed[0-9]+$/i."
    return BadQuery(f"/{what.text}/ is no pattern: {error}.", advice, at + error.at)


def nearest(typed: str, known: Sequence[str]) -> str:
    """The known name that was probably meant; "" if none is near."""
    by_lower = {each.lower(): each for each in reversed(known)}
    found = get_close_matches(typed.lower(), by_lower, n=1, cutoff=0.75)
    return by_lower[found[0]] if found else ""


def _what(term: Term) -> Text | Pattern:
    return term.values if isinstance(term.values, Pattern) else term.values[0]


def _any_of(term: Term, judge: Callable[[Text], Judge]) -> Judge:
    assert not isinstance(term.values, Pattern)
    judges = [judge(value) for value in term.values]
    if len(judges) == 1:
        return judges[0]
    return lambda held: any(each(held) for each in judges)


def _named(term: Term, value: Text) -> Judge:
    """Numbers as numbers, where both are; a colon ignores case and knows `*`."""
    sign, number = term.sign, as_number(value.text)
    by_text = _by_text(value, sign)

    def judge(held: Value) -> bool:
        if number is None or (other := as_number(held)) is None:
            return by_text(held)
        if math.isnan(number) and sign not in _ORDER:
            return math.isnan(other) is (sign != "!=")
        return _COMPARE[sign](other, number)

    return judge


def _by_text(value: Text, sign: str) -> Judge:
    text, folded = value.text, value.text.casefold()
    if sign in _ORDER:
        return lambda held: False
    if sign != ":":
        return lambda held: _COMPARE[sign](plain_text(held), text)
    if "*" in text and not value.is_quoted:
        parts = folded.split("*")
        return lambda held: _fits_shape(plain_text(held).casefold(), parts)
    return lambda held: plain_text(held).casefold() == folded


def _fits_shape(text: str, parts: Sequence[str]) -> bool:
    """`bert-*-2` is the parts `bert-` and `-2`."""
    first, *middle, last = parts
    if not text.startswith(first):
        return False
    at = len(first)
    for part in middle:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - len(last) >= at and text.endswith(last)


def _word(term: Term, value: Text) -> Judge:
    known = WORDS[term.name.text]
    if "*" in value.text and not value.is_quoted and term.sign == ":":
        return _named(term, value)
    meant = next((word for word in known if word.lower() == value.text.lower()), None)
    if meant is None:
        near = nearest(value.text, known)
        raise BadQuery(
            f"{value.text!r} is no {'status' if term.name.text == 'status' else 'state'}.",
            f"Did you mean {near!r}?" if near else f"Known: {', '.join(known)}.",
            term.value_at,
        )
    expected = _IN_PROGRESS if meant == RUNNING else meant
    if term.sign == "!=":
        return lambda held: held != expected
    return lambda held: held == expected


def _number(term: Term, text: str, kind: Kind) -> Judge:
    number = span_seconds(text) if kind is Kind.SPAN else _plain_number(text, kind)
    if number is None:
        examples = {Kind.SPAN: "90, 30min, 2h or 1d", Kind.SHARE: "50% or 12.5"}
        raise BadQuery(
            f"{text!r} is no {kind.value}.",
            f"Write one like {examples.get(kind, '0 or 12')}.",
            term.value_at,
        )
    compare = _COMPARE[term.sign]
    return lambda held: compare(as_number(held), number)


def _plain_number(text: str, kind: Kind) -> float | None:
    return as_number(text.removesuffix("%") if kind is Kind.SHARE else text)


def _moment(term: Term, text: str, now: datetime) -> Judge:
    """A day stands for its beginning; `:`, `=` and `<=` include all of it."""
    is_day = _DAY.fullmatch(text.strip()) is not None
    start, end = _bounds(text, now)
    if start is None or term.sign not in _ORDER and not is_day:
        signs = "" if start is None else f" for `{term.name.text}{term.sign}`"
        raise BadQuery(
            f"{text!r} is no {'time' if start is None else 'day'}{signs}.",
            "Write one like created>2d, created<2026-11-15 or created:today.",
            term.value_at,
        )
    if term.sign in _ORDER:
        sign = ">=" if is_day and term.sign == ">" else term.sign
        if is_day and sign == "<=":
            sign, start = "<", end
        compare = _COMPARE[sign]
        return lambda held: compare(held, start)
    is_within = term.sign != "!="
    return lambda held: (start <= float(held) < end) is is_within


def _bounds(text: str, now: datetime) -> tuple[float | None, float]:
    """Of the moment, and of the day that begins then."""
    found = moment(text, now)
    try:
        if found is not None:
            return found.timestamp(), (found + timedelta(days=1)).timestamp()
    except (ValueError, OverflowError, OSError):  # before or after all that clocks can show
        pass
    return None, 0.0
