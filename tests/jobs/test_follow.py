"""Whoever follows a job is told why nothing comes."""

import logging
from pathlib import Path

from tests.small_disk import fill, small_disk
from trackside.jobs import follow
from trackside.records.journal import Journal


def test_a_disk_that_is_full_is_told_once_each_time(tmp_path: Path, monkeypatch, caplog):
    monkeypatch.setattr(follow, "RECONCILE_SECONDS", 0.0)  # looks at every call
    caplog.set_level(logging.WARNING)
    with small_disk(tmp_path / "disk") as disk:
        journal = disk / "journal.jsonl"
        Journal(journal).open()
        watching = follow.Watch(journal, lambda: None)
        watching.history()
        assert not caplog.records
        for times in (1, 2):
            fill(disk)
            watching.history()
            watching.history()
            told = [record.getMessage() for record in caplog.records]
            assert len(told) == times
            assert told[-1].startswith(f"Disk full: the disk of {str(disk)!r} has no space left.")
            (disk / "filler").unlink()
            watching.history()
