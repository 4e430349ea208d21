"""Which group was placed for a job: today's record, and those of the release 0.1.0."""

import json
from pathlib import Path

from trackside.records.layout import JobFolder
from trackside.records.placed import Placed, PlacedHost, Started
from trackside.system.boot_clock import Moment

HOSTS = {"algo-1": PlacedHost(nonce="1"), "algo-2": PlacedHost(nonce="2", gpus=("3",))}


def test_a_group_has_one_handle_and_a_restarted_host_one_of_its_own(tmp_path: Path):
    folder = JobFolder(tmp_path)
    placed = Placed(hosts=HOSTS, placement="toy", epoch=4).after_start([*HOSTS], {"id": 7})
    placed.write(folder)
    assert Placed.read(folder) == placed
    assert placed.started == (Started(hosts=("algo-1", "algo-2"), handle={"id": 7}),)
    revived = placed.before_start(["algo-2"])
    assert revived.started_hosts == {"algo-1"}
    revived = revived.after_start(["algo-2"], {"id": 8})
    assert [each.handle["id"] for each in revived.started] == [7, 8]
    again = revived.after_start(["algo-1"], {"id": 9})
    assert [(each.hosts, each.handle["id"]) for each in again.started] == [
        (("algo-2",), 8),
        (("algo-1",), 9),
    ]


def test_a_later_field_is_ignored_and_a_damaged_record_is_none(tmp_path: Path):
    folder = JobFolder(tmp_path)
    Placed(hosts=HOSTS).write(folder)
    record = json.loads(folder.placed.read_text())
    folder.placed.write_text(json.dumps({**record, "later": [1]}))
    assert (Placed.read(folder) or Placed(hosts={})).hosts == HOSTS
    folder.placed.write_text("{")
    assert Placed.read(folder) is None


def test_the_records_of_0_1_0_are_read_the_newest_attempt_of_each_host(tmp_path: Path):
    folder = JobFolder(tmp_path / "job")
    process = {"pid": 5, "started": 6, "boot_id": "b", "nonce": "n"}
    moment = {"boot_id": "b", "seconds": 1.5}
    for host, attempt, record in (
        ("algo-1", 9, {"nonce": "old", "handle": None, "revivals": 0}),
        ("algo-1", 10, {"nonce": "1", "handle": process, "revivals": 2, "revived": moment}),
        ("algo-2", 1, {"nonce": "2", "handle": None, "gpus": ["0", "1"]}),
    ):
        path = folder.host(host, attempt).placed
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(record))
    placed = Placed.read(folder)
    assert placed == Placed(
        hosts={
            "algo-1": PlacedHost(nonce="1", revivals=2, revived=Moment("b", 1.5)),
            "algo-2": PlacedHost(nonce="2", gpus=("0", "1")),
        },
        started=(Started(hosts=("algo-1",), handle={"job": "job", "hosts": {"algo-1": process}}),),
    )
