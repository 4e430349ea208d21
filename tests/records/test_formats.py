"""Records carry the number of their format: older ones are read, members that a later version has
added are ignored, and a later format is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from trackside.coordination.coordination import FLIGHT_RECORDER, EndOrder, Meeting, Request, Why
from trackside.errors import DamagedJob, InvalidSpec
from trackside.files import damaged_files, durable
from trackside.files.json_record import FORMAT, DamagedRecord, NewerFormat
from trackside.records import evaluator_process, hosts, rule_status
from trackside.records.attached_process import AttachedProcess, AttachedProcessEnd
from trackside.records.group import GroupRecord
from trackside.records.hosts import HostRecord, Phase, SyncState
from trackside.records.kept_list import KeptList
from trackside.records.placed import Placed, PlacedHost, Started
from trackside.records.rule_status import Evaluation
from trackside.records.spec import JobSpec
from trackside.supervisor.sandbox_folder import Intent
from trackside.system.boot_clock import Moment
from trackside.system.processes import Identity

PROCESS = Identity(4, 5, "boot")
RECORDS: list[Any] = [
    HostRecord(phase=Phase.RUNNING, syncs={"/opt/ml/model": SyncState(to="s3://b/k")}),
    EndOrder(Why.HOST_LOST, "algo-2", 7.0),
    Meeting(7777, "boot", 3.0, 1.0),
    Request("1", FLIGHT_RECORDER, "algo-1", {"step": 3}),
    Placed(
        hosts={"algo-1": PlacedHost(nonce="n", revived=Moment("boot", 2.0), gpus=("0",))},
        started=(Started(hosts=("algo-1",), handle={"pid": 3}),),
    ),
    GroupRecord(addresses={"algo-1": "10.0.0.2"}, interface="eth0"),
    Intent("n", "mark", "boot", 4.0),
    evaluator_process.Intent("n", 1, 4.0, PROCESS),
    AttachedProcess(PROCESS, "machine"),
    AttachedProcessEnd(0, 2.0),
    KeptList(host="algo-1", events=["a"]),
    PROCESS,
]
REQUEST = {
    "TrainingJobName": "job",
    "HyperParameters": {"sagemaker_program": "train.py"},
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
    "ResourceConfig": {"InstanceCount": 2, "InstanceType": "local"},
}


@pytest.fixture(params=RECORDS, ids=lambda each: f"{type(each).__module__}.{type(each).__name__}")
def record(request: pytest.FixtureRequest) -> Any:
    return request.param


def rewritten(path: Path, record: Any, **members: Any) -> Any:
    """What is read when the file's members are these; None removes one."""
    durable.write_record(path, record)
    found = {**json.loads(path.read_bytes()), **members}
    path.write_text(json.dumps({name: it for name, it in found.items() if it is not None}))
    return damaged_files.read(type(record), path)


def test_a_record_is_written_with_its_number(tmp_path: Path, record: Any):
    durable.write_record(tmp_path / "record", record)
    assert json.loads((tmp_path / "record").read_bytes())["format"] == FORMAT
    assert damaged_files.read(type(record), tmp_path / "record") == record


def test_one_of_before_there_were_numbers_is_read(tmp_path: Path, record: Any):
    assert rewritten(tmp_path / "record", record, format=None) == record


def test_a_later_member_is_ignored(tmp_path: Path, record: Any):
    assert rewritten(tmp_path / "record", record, later={"a": 1}) == record


def test_a_later_format_is_refused(tmp_path: Path, record: Any):
    with pytest.raises(DamagedJob, match=r"record.*format 2,.* install a newer one"):
        rewritten(tmp_path / "record", record, format=FORMAT + 1)


def test_a_number_that_is_none_is_damage(tmp_path: Path):
    assert rewritten(tmp_path / "record", HostRecord(), format="one") is None


def test_the_status_of_a_rule_has_the_number(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path, status = tmp_path / "statuses.json", Evaluation(configuration="c", rule="r")
    rule_status.write_evaluations(path, [status])
    [written] = json.loads(path.read_bytes())
    assert written.pop("format") == FORMAT
    later = {**written, "format": FORMAT + 1}
    path.write_text(json.dumps([written, {**written, "more": 1}, later]))
    assert rule_status.read_evaluations(path) == [status, status]
    assert "install a newer one" in caplog.text


def test_a_host_s_record_of_a_server_may_be_of_any_version():
    assert hosts.from_json({"phase": "running"}) == HostRecord(phase=Phase.RUNNING)
    written = {"format": FORMAT, "phase": "running", "more": 1}
    assert hosts.from_json(written) == HostRecord(phase=Phase.RUNNING)


def stored(**members: Any) -> bytes:
    return json.dumps({**REQUEST, **members}).encode()


def test_a_job_s_request_is_stored_with_the_number():
    spec = JobSpec.from_request(REQUEST)
    written = spec.to_stored()
    assert written["format"] == FORMAT
    assert JobSpec.from_stored(json.dumps(written).encode()) == spec
    assert JobSpec.from_stored(stored()) == spec  # as 0.1.0 wrote it


def test_a_stored_request_may_have_later_members():
    resources = {**REQUEST["ResourceConfig"], "Later": 1}  # type: ignore[dict-item]
    later = {"Later": {"A": 1}, "ResourceConfig": resources, "Trackside": {"Later": True}}
    assert JobSpec.from_stored(stored(**later)) == JobSpec.from_request(REQUEST)
    with pytest.raises(InvalidSpec, match=r"3 problems") as caught:
        JobSpec.from_request({**REQUEST, **later})
    assert "ResourceConfig.Later = 1: is not known" in str(caught.value)


def test_a_stored_request_of_a_later_format_is_refused():
    with pytest.raises(NewerFormat, match="install a newer one"):
        JobSpec.from_stored(stored(format=FORMAT + 1))
    with pytest.raises(DamagedRecord):
        JobSpec.from_stored(b"[]")
    with pytest.raises(InvalidSpec):
        JobSpec.from_stored(stored(HyperParameters=7))
