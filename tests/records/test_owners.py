"""Who a job belongs to, as its journal tells it."""

import os
import pwd
from pathlib import Path

import pytest

from trackside.records.journal import Journal
from trackside.records.owners import Submitter, is_reserved, local_owner


def test_a_job_without_a_server_belongs_to_the_user_of_this_machine(tmp_path: Path):
    history = Journal(tmp_path / "journal").open(owner=local_owner())
    expected = f"local:{pwd.getpwuid(os.geteuid()).pw_name}"
    assert Submitter.of(history) == Submitter(expected)
    assert Submitter.of(Journal(tmp_path / "journal").read()) == Submitter(expected)


def test_a_user_without_a_name_is_named_by_number(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 2_000_000_123)
    assert local_owner() == "local:2000000123"


@pytest.mark.parametrize(
    ("who", "submitter"),
    [
        ({"key": "TSA", "who": "alice", "owner": "alice"}, Submitter("alice", "TSA")),
        ({"key": "TSJOB-a", "who": "job a", "owner": "alice"}, Submitter("alice", "TSJOB-a")),
        ({"key": "TSA", "who": "alice"}, Submitter("alice", "TSA")),
        ({"key": "TSJOB-a", "who": "job a"}, Submitter("job a", "TSJOB-a")),
        ({}, Submitter()),
    ],
    ids=["key", "job", "key of before", "job of before", "no server, of before"],
)
def test_the_journal_of_a_queued_job_names_its_owner(
    tmp_path: Path, who: dict[str, str], submitter: Submitter
):
    journal = Journal(tmp_path / "journal")
    journal.open_queued("Waiting", **who)
    assert Submitter.of(journal.read()) == submitter


def test_later_journal_lines_do_not_change_the_owner(tmp_path: Path):
    journal = Journal(tmp_path / "journal")
    journal.open_queued("Waiting", key="TSA", owner="alice")
    journal.note("submitted", key="TSB", owner="bob")
    assert Submitter.of(journal.read()) == Submitter("alice", "TSA")


@pytest.mark.parametrize("name", ["", " ", "local:", "local:root", "job ", "job a"])
def test_some_names_are_no_keys(name: str):
    assert is_reserved(name)


@pytest.mark.parametrize("name", ["alice", "this machine", "Local:x", "jobs", "locals", "my job a"])
def test_all_others_are(name: str):
    assert not is_reserved(name)
