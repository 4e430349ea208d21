"""Where a job's hosts are, and what a host gets that has no folder of the job."""

import json
from pathlib import Path

import pytest

from trackside.files.json_record import DamagedRecord
from trackside.records.group import Bundle, GroupRecord, group_of, loopback_addresses, read_group
from trackside.records.layout import JobFolder

HOSTS = ("algo-1", "algo-2")
BUNDLE = Bundle(
    spec={"TrainingJobName": "job"},
    journal="",
    hosts={"algo-1": "n1", "algo-2": "n2"},
    attempt=1,
    epoch=2,
    environment={"AWS_SECRET_ACCESS_KEY": "hush"},
)


def test_every_host_of_a_job_has_an_address_of_its_own():
    names = tuple(f"algo-{number}" for number in range(1, 1025))
    found = loopback_addresses("a-job", names)
    assert len(set(found.values())) == 1024
    assert all(0 < int(part) < 255 for part in found["algo-1024"].split(".")[1:2])


def test_without_a_record_all_hosts_are_on_this_machine(tmp_path: Path):
    folder = JobFolder(tmp_path / "job")
    group = group_of(folder, HOSTS)
    assert group.addresses == loopback_addresses("job", HOSTS)
    assert group.is_one_machine
    assert group.shares_files


def test_hosts_with_addresses_of_a_network_do_not_share_a_machine(tmp_path: Path):
    folder = JobFolder(tmp_path)
    written = GroupRecord(
        addresses={"algo-1": "10.0.0.1", "algo-2": "10.0.0.2"},
        interface="eth1",
        host="algo-2",
        epoch=3,
        shares_files=False,
    )
    written.write(folder)
    assert group_of(folder, HOSTS) == read_group(folder) == written
    assert not written.is_one_machine


def test_a_later_field_is_ignored(tmp_path: Path):
    folder = JobFolder(tmp_path)
    GroupRecord(addresses={}, interface="lo").write(folder)
    record = json.loads(folder.group.read_text())
    folder.group.write_text(json.dumps({**record, "later": 1}))
    assert read_group(folder) == GroupRecord(addresses={}, interface="lo")


def test_a_bundle_is_what_was_packed_and_shows_no_secret():
    assert Bundle.parse(BUNDLE.to_json()) == BUNDLE
    assert "hush" not in repr(BUNDLE)
    assert "n1" not in repr(BUNDLE)


def test_a_bundle_of_a_later_version_is_refused_with_the_way_out():
    text = json.dumps({**json.loads(BUNDLE.to_json()), "format": 99})
    with pytest.raises(DamagedRecord, match="install a newer one on this host, the submitter's"):
        Bundle.parse(text)
