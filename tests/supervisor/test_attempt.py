"""One host through one attempt, in this process, with a real script in a real sandbox."""

import os
import threading
from pathlib import Path

import pytest

from tests.conftest import environment_for
from tests.fault_proxy import Fault
from tests.small_disk import fill, small_disk
from tests.supervisor.running import NONCE, attempt, context
from tests.wait import until
from trackside.capture.trial_layout import RECORDER_REQUEST
from trackside.coordination.coordination import FLIGHT_RECORDER, Request
from trackside.coordination.folder import FolderCoordination
from trackside.records.death import Cause
from trackside.records.hosts import HostRecord, Phase
from trackside.records.status import Secondary, Status
from trackside.supervisor import attempt as attempts
from trackside.supervisor import syncer
from trackside.supervisor.attempt import Attempt
from trackside.supervisor.lead import conclude
from trackside.supervisor.process_sandbox import ProcessSandbox
from trackside.supervisor.program import supervise
from trackside.supervisor.sandbox import Running, SandboxPlan


def script(text: str) -> dict[str, list[str]]:
    return {"ContainerEntrypoint": ["sh", "-c", text]}


def in_thread(mine: Attempt) -> tuple[threading.Thread, list[HostRecord]]:
    ran: list[HostRecord] = []
    thread = threading.Thread(target=lambda: ran.append(mine.run()), daemon=True)
    thread.start()
    return thread, ran


def test_a_lag_is_reported_in_the_journal_and_so_is_its_end(
    tmp_path, faulty, bucket, s3_server, monkeypatch
):
    for name, value in environment_for(faulty.url).items():
        monkeypatch.setenv(name, value)
    # No folder rests for as long as a lag takes here.
    for pause in ("SCAN_SECONDS", "IDLE_PAUSE_SECONDS", "STILL_PAUSE_SECONDS"):
        monkeypatch.setattr(syncer, pause, 0.1)
    monkeypatch.setattr(syncer, "SCAN_SHARE", 1.0)
    job = context(
        tmp_path,
        AlgorithmSpecification=script("echo x > /opt/ml/checkpoints/1.pt; exec sleep 300"),
        OutputDataConfig={"S3OutputPath": f"s3://{bucket}/out"},
        CheckpointConfig={"S3Uri": f"s3://{bucket}/c"},
    )
    faulty.inject(Fault(pattern=r"^PUT .*/1\.pt", times=10_000, status=403))
    thread, ran = in_thread(Attempt(job, 1, lag_seconds=2.0))
    try:
        # On a slow machine others lag too; from here on this one always lags most.
        until(lambda: _lead(tmp_path) > 1.0)
        lag = "Training goes on; /opt/ml/checkpoints was last synced at 20"
        until(lambda: job.journal.read().message.startswith(lag))
        until(lambda: "refused" in job.journal.read().message)
        said = job.journal.read()
        lead = _lead(tmp_path)
        until(lambda: _lead(tmp_path) > lead + 2.0)
        assert job.journal.read().version == said.version, "said once, not every second"
        faulty.clear()
        until(lambda: job.journal.read().message.endswith("Sync has caught up."))
    finally:
        faulty.clear()
        job.journal.try_move(Secondary.STOPPING)
        thread.join()
    assert ran[0].unsent == ""
    keys = [entry["Key"] for entry in s3_server.client().list_objects_v2(Bucket=bucket)["Contents"]]
    assert "c/1.pt" in keys


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a small disk")
def test_a_start_waits_while_others_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(attempts, "STORE_SECONDS", 0.05)
    with small_disk(tmp_path / "disk", "8m") as disk:
        out = {"S3OutputPath": str(tmp_path / "out")}
        mine = attempt(disk, AlgorithmSpecification=script("echo ran"), OutputDataConfig=out)
        fill(disk)
        thread, ran = in_thread(mine)
        with pytest.raises(AssertionError):
            until(lambda: not thread.is_alive(), seconds=1.0)
        (disk / "filler").unlink()
        thread.join()
        assert ran[0].exit_code == 0, ran[0].failure
        assert mine.folder.log.read_text().endswith("ran\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a small disk")
def test_a_start_that_waits_for_space_can_be_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(attempts, "STORE_SECONDS", 600.0)
    with small_disk(tmp_path / "disk", "8m") as disk:
        mine = attempt(disk, AlgorithmSpecification=script("echo ran"))
        mine.context.folder.reserve_ballast()
        fill(disk)
        thread, ran = in_thread(mine)
        mine.context.journal.try_move(Secondary.STOPPING)  # in the space of the ballast
        (disk / "filler").unlink()
        thread.join()
        assert ran[0].exit_code is None


def test_a_request_is_fulfilled_while_the_script_runs(tmp_path):
    hook = {"S3OutputPath": "s3://bucket/debug", "LocalPath": "/opt/ml/output/tensors"}
    mine = attempt(
        tmp_path,
        DebugHookConfig=hook,
        AlgorithmSpecification=script("mkdir -p /opt/ml/output/tensors; exec sleep 300"),
    )
    thread, _ = in_thread(mine)
    asked = mine.folder.inside("/opt/ml/output/tensors")
    until(asked.is_dir)
    outside = FolderCoordination(mine.context.folder, mine.context.spec.hosts, "algo-1", 1)
    outside.request(Request("1", FLIGHT_RECORDER, "algo-1"))
    until((asked / RECORDER_REQUEST).exists)
    mine.context.journal.move(Secondary.STOPPING)
    thread.join()


class TakenOver(FolderCoordination):
    """Of a host whose job continues elsewhere as soon as this file exists."""

    def is_over(self) -> str:
        is_elsewhere = (self.folder.root / "taken over").exists()
        return "group 2 has been placed." if is_elsewhere else ""


def test_a_host_whose_part_is_over_ends_its_script_and_publishes_nothing(tmp_path):
    mine = attempt(
        tmp_path,
        AlgorithmSpecification=script(
            "trap 'echo bye; exit 0' TERM; echo x > /opt/ml/model/m; while :; do sleep 0.1; done"
        ),
        CheckpointConfig={"S3Uri": "s3://bucket/checkpoints"},
    )
    folder = mine.context.folder
    mine.coordination = TakenOver(folder, mine.context.spec.hosts, "algo-1", 1)
    thread, ran = in_thread(mine)
    until((mine.folder.ml / "model" / "m").exists)
    (folder.root / "taken over").touch()
    thread.join()
    assert ran[0].exit_code == 0
    assert ran[0].phase is not Phase.ENDED
    log = mine.folder.log.read_text()
    assert "bye" in log
    assert "[trackside] algo-1 has left the job: group 2 has been placed." in log
    assert (mine.folder.ml / "model" / "m").exists()


def test_a_lead_whose_part_is_over_waits_no_longer_for_other_hosts(tmp_path):
    mine = attempt(tmp_path, num_hosts=2)
    folder = mine.context.folder
    mine.coordination = TakenOver(folder, mine.context.spec.hosts, "algo-1", 1)
    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(conclude(mine)), daemon=True)
    thread.start()
    with pytest.raises(AssertionError):
        until(lambda: ended, seconds=0.3)
    (folder.root / "taken over").touch()
    until(lambda: ended)
    assert ended == [True], "the job is not for the present hosts"
    assert not mine.context.journal.read().state.is_final
    assert "algo-1 has left the job: group 2" in mine.folder.log.read_text()


def _lead(home: Path) -> float:
    """By how much the checkpoints lag more than whatever else lags most."""
    syncs = attempt(home).coordination.records()["algo-1"].syncs
    lags = {name: state.lag_seconds for name, state in syncs.items()}
    return lags.pop("/opt/ml/checkpoints", 0.0) - max(lags.values(), default=0.0)


def test_a_supervisor_that_comes_back_to_a_job_that_ended_ends_its_script(tmp_path):
    mine = attempt(tmp_path, AlgorithmSpecification=script("exec sleep 300"))
    _start(mine)
    mine.context.journal.move(Secondary.FAILED, reason="given up")
    supervise(mine.context.folder, "algo-1", NONCE)
    until(lambda: not isinstance(mine._sandbox.poll(mine._plan()), Running))


def test_a_supervisor_that_comes_back_to_another_attempt_ends_the_earlier_script(tmp_path):
    mine = attempt(tmp_path, AlgorithmSpecification=script("exec sleep 300"))
    _start(mine)
    journal = mine.context.journal
    journal.move(Secondary.RESTARTING)
    journal.move(Secondary.STARTING, attempt=2)
    journal.move(Secondary.STOPPING)
    supervise(mine.context.folder, "algo-1", NONCE)
    assert journal.read().state.status is Status.STOPPED
    until(lambda: not isinstance(mine._sandbox.poll(mine._plan()), Running))


def _start(mine: Attempt) -> None:
    assert mine._prepare()
    mine._start()
    assert isinstance(mine._sandbox.poll(mine._plan()), Running)


def test_a_script_that_ended_as_requested_has_not_failed_though_its_supervisor_died(tmp_path):
    """The one who asked is gone; the next one finds the exit."""
    mine = attempt(tmp_path, num_hosts=1, AlgorithmSpecification=script("exec sleep 300"))
    _start(mine)
    mine.context.journal.move(Secondary.STOPPING)
    mine._sandbox.signal(mine._plan(), 15)
    until(lambda: not isinstance(mine._sandbox.poll(mine._plan()), Running))
    found = attempt(tmp_path).run()
    assert found.exit_code == -15
    assert not found.went_wrong


@pytest.mark.parametrize("phase", ["preparing", "ready", "running", "ended", "uploading"])
def test_a_supervisor_takes_over_in_every_phase(tmp_path, phase):
    write = "echo ran >> /opt/ml/output/data/ran; echo m > /opt/ml/model/m"
    mine = attempt(tmp_path, AlgorithmSpecification=script(write))
    if phase == "preparing":
        mine._move(Secondary.DOWNLOADING)
        mine._report.write(Phase.PREPARING)
    elif phase == "ready":
        assert mine._prepare()
    elif phase == "running":
        assert mine._prepare()
        mine._start()
    else:
        mine.run()
        if phase == "uploading":
            mine._report.write(Phase.UPLOADING)
    next_one = attempt(tmp_path)
    assert next_one.run().exit_code == 0
    ran = next_one.folder.ml / "output/data/ran"
    assert ran.read_text() == "ran\n", "once, whoever supervises"
    conclude(next_one)
    history = next_one.context.journal.read()
    assert history.state.status is Status.COMPLETED
    assert [t.secondary for t in history.transitions][-2:] == [
        Secondary.UPLOADING,
        Secondary.COMPLETED,
    ]


def test_a_stop_while_uploading_makes_it_stopped_with_the_model(tmp_path):
    mine = attempt(tmp_path, AlgorithmSpecification=script("echo m > /opt/ml/model/m"))
    mine.run()
    assert mine.context.journal.read().state.secondary is Secondary.UPLOADING
    mine.context.journal.move(Secondary.STOPPING)
    conclude(mine)
    assert mine.context.journal.read().state.status is Status.STOPPED
    bucket = mine.context.settings.layout.buckets / "bucket"
    assert (bucket / "out/job/output/model.tar.gz").exists()


@pytest.mark.parametrize(
    ("request_", "category", "cause"),
    [
        (
            {
                "AlgorithmSpecification": {"TrainingImage": "any"},
                "Trackside": {"Sandbox": "docker"},
            },
            "InternalServerError: No Docker engine at",
            Cause.ENGINE_GONE,
        ),
        (
            {
                "InputDataConfig": [
                    {
                        "ChannelName": "train",
                        "DataSource": {"S3DataSource": {"S3Uri": "/no/such/folder"}},
                    }
                ]
            },
            "ClientError: Data download failed: ",
            Cause.REQUEST,
        ),
    ],
)
def test_what_ends_a_host_before_its_script_is_the_cause(
    tmp_path, monkeypatch, request_, category, cause
):
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/docker.sock")
    record = Attempt(context(tmp_path, **request_), 1).run()
    assert record.failure.startswith(category)
    assert record.cause == cause


def test_a_failing_watch_leaves_no_script_behind(tmp_path, monkeypatch):
    mine = attempt(tmp_path, AlgorithmSpecification=script("exec sleep 300"))

    def breaks() -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(mine, "_watch", breaks)
    assert "Input/output error" in mine.run().failure
    until(lambda: not isinstance(mine._sandbox.poll(mine._plan()), Running))


def test_a_start_waits_for_the_disk_only_for_what_a_power_cut_must_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Journal and intent are synced before the script starts; the rest once it runs."""
    one = attempt(tmp_path, AlgorithmSpecification=script("exit 0"))
    before: list[str] = []
    after: list[str] = []
    real_sync, real_start = os.fsync, ProcessSandbox.start
    synced = before

    starting = threading.current_thread()  # others store what there is, and nothing waits for it

    def sync(descriptor: int) -> None:
        if threading.current_thread() is starting:
            synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name.split(".json")[0])
        real_sync(descriptor)

    def start(sandbox: ProcessSandbox, plan: SandboxPlan) -> None:
        nonlocal synced
        real_start(sandbox, plan)
        synced = after

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(ProcessSandbox, "start", start)
    one.run()
    assert {"journal", ".intent"} <= set(before)
    assert set(before) <= {"journal", ".intent", "sandbox"}
    assert {"1", "baseline", ".host"} <= set(after)
