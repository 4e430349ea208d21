"""Patterns as .gitignore has them."""

import time

import pytest

from trackside.supervisor.ignore_patterns import IgnorePatterns


@pytest.mark.parametrize(
    ("lines", "path", "is_covered"),
    [
        ("*.bin", "a.bin", True),
        ("*.bin", "deep/down/a.bin", True),
        ("*.bin", "a.binary", False),
        ("data", "data/a.csv", True),
        ("data/", "data/a.csv", True),
        ("data/", "data", False),
        ("/data", "data/a.csv", True),
        ("/data", "other/data/a.csv", False),
        ("runs/old", "runs/old/a", True),
        ("runs/old", "more/runs/old/a", False),
        ("runs/*/big", "runs/1/big/a", True),
        ("runs/*/big", "runs/1/2/big/a", False),
        ("runs/**/big", "runs/1/2/big/a", True),
        ("runs/**/big", "runs/big/a", True),
        ("**/big", "a/b/big", True),
        ("runs/**", "runs/a/b", True),
        ("runs/**", "runs", False),
        ("*.bin\n!best.bin", "best.bin", False),
        ("*.bin\n!best.bin", "last.bin", True),
        ("data/\n!data/a.csv", "data/a.csv", True),
        ("# data", "data", False),
        ("\\#data", "#data", True),
        ("  \n/\n", "a", False),
        ("a?[0-9].pt", "ab3.pt", True),
        ("a?[!0-9].pt", "ab3.pt", False),
        ("[", "a", False),
    ],
)
def test_what_is_left_out(lines: str, path: str, is_covered: bool) -> None:
    assert IgnorePatterns(lines.splitlines()).covers(path) is is_covered


def test_no_pattern_takes_long() -> None:
    lines = ["*a" * 40 + "b", "**/" * 40 + "b", "a/**/" * 20 + "b"]
    path = "/".join(["a" * 200] * 20)
    began = time.thread_time()
    assert not IgnorePatterns(lines).covers(path)
    # With the ways to read the stars tried one after another, it would not end in a year.
    assert time.thread_time() - began < 60
