"""A host's record: what is written is what is read."""

from pathlib import Path

from trackside import hosts
from trackside.hosts import HostRecord, Phase, Progress, SyncState

FULL = HostRecord(
    phase=Phase.RUNNING,
    exit_code=-15,
    ended_at=12.5,
    lost="gone",
    failure="AlgorithmError: é \udce9 \x1b[2J",
    unsent="refused",
    tail="last\nlines",
    isolation="root",
    progress=Progress(what="Downloading", done_files=1, num_files=2, done_bytes=3, size_bytes=4),
    syncs={"/opt/ml/checkpoints": SyncState(to="s3://b/c", last=1.0, lag_seconds=2.0, error="e")},
)


def test_a_record_survives_the_way_to_disk(tmp_path: Path):
    hosts.write(tmp_path / "host.json", FULL)
    assert hosts.read(tmp_path / "host.json") == FULL


def test_a_host_that_wrote_nothing_has_no_record(tmp_path: Path):
    assert hosts.read(tmp_path / "host.json") is None


def test_only_a_failure_or_a_loss_went_wrong():
    assert HostRecord(failure="AlgorithmError: no").went_wrong
    assert HostRecord(lost="the machine was restarted").went_wrong
    assert not HostRecord(exit_code=-15, unsent="refused").went_wrong
