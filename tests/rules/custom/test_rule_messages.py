"""What a rule's process may say, and what it may not."""

import json

import pytest

from trackside.records.finding import Finding
from trackside.rules.custom.rule_messages import (
    TEXT_MOST,
    Begins,
    Checked,
    Failed,
    InvalidMessage,
    Over,
    checked,
    parse,
)

FOUND = Finding(rule="mine", message="it is so", step=3, tensor="loss", value=0.5)


def line(kind: str, **members: object) -> bytes:
    return json.dumps({"kind": kind, **members}).encode()


def test_all_that_a_process_states_is_understood():
    assert parse(line("begins", step=7)) == Begins(7)
    assert parse(line("checked", step=None)) == Checked(None)
    assert parse(line("failure", text="no")) == Failed("no")
    assert parse(line("over")) == Over()
    assert parse(line("finding", line=FOUND.to_line().decode())) == FOUND


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\xff",
        b"[1]",
        b"null",
        b"{}",
        b"[" * 100_000,
        line("unheard of"),
        line("begins"),
        line("begins", step="7"),
        line("begins", step=True),
        line("begins", step=float("inf")),
        line("checked", step=10**30),
        line("failure", text=["no"]),
        line("finding", line=7),
        line("finding", line="{}"),
        line("finding", line='{"rule": "a", "message": {}}'),
        line("finding", line='{"rule": "a", "message": "b", "value": "much"}'),
        line("finding", line='{"rule": "a", "message": "b", "step": "9"}'),
        line("finding", line='{"rule": "a", "message": "\\ud800"}'),
    ],
)
def test_anything_else_is_refused(said: bytes):
    with pytest.raises(InvalidMessage):
        parse(said)


def test_when_and_for_whom_it_was_found_is_not_the_rule_s_to_say():
    forged = Finding(rule="a", message="b", time=4e9, is_profiler=True)
    found = parse(line("finding", line=forged.to_line().decode()))
    assert isinstance(found, Finding)
    assert (found.time, found.is_profiler) == (0.0, False)


def test_endless_messages_are_cut():
    long = Finding(rule="a", message="b" * 50_000)
    assert len(checked(long).message) == TEXT_MOST


def test_a_rule_that_gives_the_wrong_kind_of_thing_is_reported_which():
    with pytest.raises(TypeError, match=r"message = None is not a string"):
        checked(Finding(rule="a", message=None))  # type: ignore[arg-type]
