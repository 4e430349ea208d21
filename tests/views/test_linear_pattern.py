"""Patterns match what Python's `re` matches, in bounded time."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.views.query.linear_pattern import LinearPattern
from trackside.views.query.pattern_syntax import PatternError

ATOMS = ["a", "b", "_", " ", ".", r"\w", r"\d", r"\s", r"\W", "[ab]", "[^a]", "[a-c0-9]", r"\b"]
ATOMS += ["^", "$", r"\.", "é", "A", r"[\d-]", r"\B", r"\x61"]
REPEATS = ["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{,2}", "{2,}", "*?", "+?"]


def repeated(part: str, sign: str) -> str:
    is_edge = part in ("^", "$", r"\b", r"\B")
    return part if is_edge else part + sign


parts = st.builds(repeated, st.sampled_from(ATOMS), st.sampled_from(REPEATS))
patterns = st.recursive(
    st.lists(parts, max_size=5).map("".join),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("|".join),
        st.builds("(?:{}){}".format, inner, st.sampled_from(REPEATS)),
        st.builds("({}){}".format, inner, st.sampled_from(REPEATS)),
    ),
    max_leaves=4,
)
texts = st.text("ab_ 1.AéÉ-", min_size=1, max_size=12)
# Versions of Python differ on whether "" has a place of \B.


@given(patterns, st.lists(texts, min_size=1, max_size=5), st.booleans())
def test_it_finds_what_re_finds(pattern: str, lines: list[str], ignores_case: bool):
    expected = re.compile(pattern, re.IGNORECASE if ignores_case else 0)
    linear = LinearPattern(pattern, ignores_case=ignores_case)
    found = [linear.search(line) for line in lines]
    assert found == [expected.search(line) is not None for line in lines]


@given(st.text(max_size=40))
def test_any_text_is_a_pattern_or_refused_with_a_place(text: str):
    try:
        LinearPattern(text).search("some text")
    except PatternError as error:
        place = error.at
    else:
        place = 0
    assert 0 <= place <= len(text)


def test_a_pattern_that_takes_long_is_given_up():
    """Each character of this text leads to another set of places."""
    draw = random.Random(1)
    pattern = LinearPattern("a[ab]{200}[ab]{180}c")
    texts = ("".join(draw.choice("ab") for _ in range(4000)) for _ in range(1000))
    with pytest.raises(PatternError, match="takes too long"):
        any(map(pattern.search, texts))


@given(st.text(r"ab()[]{}|*+?\.^$-,12dwsbx:P<>=!i", max_size=15), texts)
def test_what_both_accept_both_find(pattern: str, text: str):
    try:
        linear = LinearPattern(pattern)
        expected = re.compile(pattern)
    except (PatternError, re.error, FutureWarning):
        return
    assert linear.search(text) is (expected.search(text) is not None)


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "^(a|a)*$", "(a|aa)+$", "(.*)*x", "(.*a){12}$", ".*.*.*.*.*.*x", "(a?){50}a{50}b"],
)
def test_a_pattern_that_backtracks_without_end_ends_here(pattern: str):
    assert LinearPattern(pattern).search("a" * 3000 + "b" * 2) is ("b" in pattern)


@pytest.mark.parametrize(
    ("pattern", "what", "at"),
    [
        ("a(b", "is not closed", 1),
        ("ab)", "closes nothing", 2),
        ("x[ab", "is not closed", 1),
        ("*a", "nothing to repeat", 0),
        ("a**", "two repeats", 2),
        ("a++", "two repeats", 2),
        ("a(?=b)", "looks around", 1),
        (r"(a)\1", "no meaning", 3),
        (r"\q", "no meaning", 0),
        ("a\\", "no meaning", 1),
        ("a{3,2}", "m <= n", 1),
        ("a{2000}", "m <= n", 1),
        ("(a{100}){100}", "too many", 0),
        ("[z-a]", "in order", 1),
        (r"[\d-z]", "both ends", 1),
        (r"\x4", "hexadecimal", 0),
        ("^*", "cannot be repeated", 0),
        ("(" * 30 + ")" * 30, "are nested", 20),
        ("a" * 201, "more than 200 characters", 200),
    ],
)
def test_what_is_no_pattern_is_refused_with_its_place(pattern: str, what: str, at: int):
    with pytest.raises(PatternError, match=what) as refused:
        LinearPattern(pattern)
    assert refused.value.at == at


def test_the_automaton_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("trackside.views.query.linear_pattern._MOST_KEPT", 50)
    pattern = LinearPattern("a.{8}b")
    for number in range(2000):
        text = f"{number:b}".replace("0", "a").replace("1", "b")
        assert pattern.search(text) is (re.search("a.{8}b", text) is not None)
    assert len(pattern._states) <= 51
