"""What is bound whatever a script logs, and that a file costs no other."""

import os

import pytest

from tests.curves.loggers.conftest import Logging
from trackside.curves.loggers import logged_curves, logger_files


def test_tags_and_runs_have_bounds(logging: Logging, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logged_curves, "MOST_TAGS", 6)
    monkeypatch.setattr(logged_curves, "MOST_RUNS", 2)
    for name in ("a", "b", "c"):
        logging.write(f"{name}.csv", "step,v,w,x,y\n0,1,2,3,4\n")
    logging.files.tick()
    assert {run for run, _ in logging.tags} == {"a", "b"}
    assert len(logging.tags) == 6


def test_files_have_a_bound(logging: Logging, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logger_files, "MOST_FILES", 3)
    for number in range(5):
        logging.write(f"{number}.csv", "step,v\n0,1\n")
    logging.files.tick()
    assert {run for run, _ in logging.tags} == {"0", "1", "2"}


def test_a_name_leads_nowhere_else(logging: Logging):
    """Nor does a tag with control characters become one."""
    logging.write(".hidden/..x/\x1b[2J.csv", "step,v,\x1b[2J\n0,1,2\n")
    logging.files.tick()
    assert logging.tags == {("hidden/x/_[2J".replace("[", "_"), "v")}


def test_links_are_not_followed(logging: Logging):
    outside = logging.code.parent / "outside.csv"
    outside.write_text("step,v\n0,1\n")
    os.symlink(outside, logging.code / "link.csv")
    os.mkfifo(logging.code / "fifo.csv")
    logging.files.tick()
    assert logging.tags == set()


def test_nothing_is_read_or_written_when_nothing_changed(logging: Logging):
    logging.write("a.csv", "step,v\n0,1\n")
    logging.files.tick()
    before = logging.state.stat().st_mtime_ns
    logging.files.tick()
    assert logging.state.stat().st_mtime_ns == before


def test_a_damaged_state_means_from_the_start(logging: Logging):
    logging.write("a.csv", "step,v\n0,1\n")
    logging.state.write_text('{"files": {"a.csv": {"offset": -3, "rows": "x", "known": []}}}')
    logging.taken_over().tick()
    assert logging.points("a", "v") == [(0, 1.0)]
