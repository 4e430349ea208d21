"""A full disk is reported to those who follow a job."""

import logging
from pathlib import Path

from tests.small_disk import fill, small_disk
from trackside.jobs import local_follower
from trackside.records.journal import Journal


def test_a_full_disk_is_reported_once_each_time(tmp_path: Path, monkeypatch, caplog):
    monkeypatch.setattr(local_follower, "RECONCILE_SECONDS", 0.0)  # reconciles at every call
    caplog.set_level(logging.WARNING)
    with small_disk(tmp_path / "disk") as disk:
        journal = disk / "journal.jsonl"
        Journal(journal).open()
        watch = local_follower.JournalWatch(journal, lambda: None)
        watch.history()
        assert not caplog.records
        for times in (1, 2):
            fill(disk)
            watch.history()
            watch.history()
            messages = [record.getMessage() for record in caplog.records]
            assert len(messages) == times
            assert messages[-1].startswith(
                f"Disk full: the disk of {str(disk)!r} has no space left."
            )
            (disk / "filler").unlink()
            watch.history()
