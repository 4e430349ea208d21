"""What a script writes beside itself, as scripts do that never heard of /opt/ml, is kept."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trackside
from tests.e2e.conftest import Job, Machine, made_machine
from tests.other_users import FIRST, needs_other_users, python_for_all
from tests.wait import until
from trackside import curves
from trackside.curves.chunks import by_source
from trackside.curves.event_locations import list_event_files
from trackside.records.layout import JobKeys, curves_of
from trackside.records.status import Status
from trackside.sdk.download import bring_back
from trackside.storage.locate import entries_below, locate

WRITES = """
import os, time
os.makedirs("checkpoints", exist_ok=True)
open("checkpoints/last.pt", "wb").write(b"weights")
open("out.csv", "w").write("step,loss")
"""
WAITS = """
print("READY", flush=True)
while not os.path.exists(os.environ["GO"]): time.sleep(0.02)
"""
CURVES = """
import glob, os, shutil, time, trackside
with trackside.SummaryWriter("runs/exp1") as writer:
    for step in range(40):
        writer.add_scalar("loss", 1 / (step + 1), step)
        writer.flush()
        while step == 20 and not os.path.exists(os.environ["GO"]):
            time.sleep(0.05)
shutil.copy(glob.glob("runs/exp1/*")[0], "/opt/ml/model/copy")
"""
TRACKSIDE: Any = {"Environment": {"PYTHONPATH": str(Path(trackside.__file__).parent.parent)}}
"""The script imports the tree under test, wherever it is."""
KEPT = {"checkpoints/last.pt": b"weights", "out.csv": b"step,loss"}


def kept(job: Job) -> dict[str, bytes]:
    place = locate(JobKeys.of(job.spec).files, home=job.machine.settings.home)
    return {path: place.store.get(entry.key) for path, entry in entries_below(place)}


def folder_state(job: Job, host: str = "algo-1"):
    return job.record(host).syncs["/opt/ml/code"]


def test_what_a_script_leaves_in_its_working_folder_is_kept(machine: Machine):
    source = {"train.py": WRITES, "helper.py": "", "data/in.csv": "1"}
    job = machine.run(source)
    assert job.history().state.status is Status.COMPLETED
    assert kept(job) == KEPT
    state = folder_state(job)
    assert (state.num_files, state.size_bytes, state.left_out) == (2, 16, [])


def test_it_is_there_while_the_script_runs_and_follows_what_the_script_removes(machine: Machine):
    job = machine.submit(WRITES + WAITS + "os.unlink('out.csv')")
    until(lambda: kept(job) == KEPT)
    assert not job.history().state.is_final
    machine.go.touch()
    job.wait()
    assert kept(job) == {"checkpoints/last.pt": b"weights"}


def test_a_failed_job_s_files_are_kept(machine: Machine):
    job = machine.run(WRITES + "raise SystemExit(3)")
    assert job.history().state.status is Status.FAILED
    assert kept(job) == KEPT


def test_a_stopped_job_s_files_are_kept(machine: Machine):
    saves = "import signal, sys\nsignal.signal(15, lambda *_: sys.exit(open('end', 'w').write('')))"
    job = machine.submit(saves + WRITES + WAITS)
    job.wait_for_line("READY")
    machine.jobs.stop(job.name)
    assert job.wait().state.status is Status.STOPPED
    assert kept(job) == {**KEPT, "end": b""}


def test_they_are_kept_though_the_supervisor_is_killed(machine: Machine):
    job = machine.submit({"train.py": WRITES + WAITS + "open('late', 'w')", "source.txt": "1"})
    job.wait_for_line("READY")
    os.kill(job.supervisor_pid(), signal.SIGKILL)
    machine.go.touch()
    assert job.wait().state.status is Status.COMPLETED
    assert kept(job) == {**KEPT, "late": b""}


def test_a_source_file_that_the_script_changed_is_kept(machine: Machine):
    source = {"train.py": "open('notes.txt', 'a').write(' and more')", "notes.txt": "as sent"}
    job = machine.run(source)
    assert kept(job) == {"notes.txt": b"as sent and more"}


def test_what_is_left_out_is_counted_and_said(machine: Machine):
    script = """
import os
import helper
os.makedirs("data/raw")
for name in ("data/raw/1.bin", "data/raw/2.bin", "data/best.bin", "model.pt"):
    open(name, "w").write("1234")
os.symlink("model.pt", "latest.pt")
os.makedirs("__pycache__", exist_ok=True)
open("__pycache__/x.pyc", "w")
open(".tracksideignore", "w").write("*")
print("the end", end="")
"""
    ignore = "# large\n*.bin\n!best.bin\n"
    job = machine.run({"train.py": script, "helper.py": "", ".tracksideignore": ignore})
    assert kept(job).keys() == {"data/best.bin", "model.pt", ".tracksideignore"}
    by_default, ignored, links = folder_state(job).left_out
    assert by_default.why == "ignored by default"
    assert by_default.num_files >= 1
    assert (ignored.why, ignored.num_files) == ("ignored by .tracksideignore", 2)
    assert (ignored.size_bytes, ignored.example) == (8, "data/raw/1.bin")
    assert (links.why, links.num_files, links.example) == ("not followed as a link", 1, "latest.pt")
    [said] = [line for line in job.lines() if "Not kept" in line]
    assert said.startswith("[trackside] Not kept of the working folder: ")
    assert "2 files ignored by .tracksideignore (such as data/raw/1.bin)" in said
    assert "the end" in job.lines()


def test_the_newest_files_are_kept_where_not_all_have_room(machine: Machine, monkeypatch):
    script = """
import os
for age, name in enumerate(["last.pt", "huge.pt", "small", "first.pt"]):
    size = {"huge.pt": 5000, "small": 10}.get(name, 600)
    open(name, "wb").write(bytes(size))
    os.utime(name, (1e9 - age, 1e9 - age))
"""
    monkeypatch.setenv("TRACKSIDE_KEEP_FILES_GB", "0.000001")
    limited = Machine(machine.folder, dict(os.environ))
    job = limited.run(script)
    assert {path: len(data) for path, data in kept(job).items()} == {"last.pt": 600, "small": 10}
    [beyond] = folder_state(job).left_out
    assert beyond.num_files == 2
    assert beyond.why == "beyond 1e-06 GB (TRACKSIDE_KEEP_FILES_GB) or 10,000 files"


def test_a_file_that_cannot_be_stored_fails_no_job(machine: Machine):
    job = machine.run(WRITES + "open('two\\nlines', 'w')")
    assert job.history().state.status is Status.COMPLETED, job.history().failure_reason
    assert kept(job) == KEPT
    [left] = folder_state(job).left_out
    assert (left.why, left.example) == ("not readable or storable", "two\nlines")
    assert any("(two lines)" in line for line in job.lines())


def test_each_host_s_files_are_kept_apart(machine: Machine):
    script = "import os; open('who', 'w').write(os.environ['SM_CURRENT_HOST'])"
    two = {"InstanceCount": 2, "InstanceType": "local", "VolumeSizeInGB": 1}
    job = machine.run(script, ResourceConfig=two)
    assert kept(job) == {"who": b"algo-1", "algo-2/who": b"algo-2"}


def test_a_second_attempt_replaces_what_it_writes_again_and_loses_nothing(machine: Machine):
    script = """
import os, time
mark = os.environ["GO"] + ".first"
which = "second" if os.path.exists(mark) else "first"
open("out.csv", "w").write(which)
open(which, "w")
if which == "first":
    open(mark, "w")
    while not os.path.exists(os.environ["GO"]): time.sleep(0.02)
    os.kill(os.getpid(), 9)
"""
    job = machine.submit(script, RetryStrategy={"MaximumRetryAttempts": 1})
    until(lambda: kept(job) == {"out.csv": b"first", "first": b""})
    machine.go.touch()
    assert job.wait().state.status is Status.COMPLETED
    assert kept(job) == {"out.csv": b"second", "first": b"", "second": b""}


def test_a_folder_that_has_a_place_of_its_own_is_not_kept_twice(machine: Machine):
    checkpoints = {"S3Uri": "s3://bucket/ckpt", "LocalPath": "/opt/ml/code/checkpoints"}
    job = machine.run(WRITES, CheckpointConfig=checkpoints)
    assert kept(job) == {"out.csv": b"step,loss"}
    assert job.stored("s3://bucket/ckpt/last.pt") == b"weights"


def test_a_job_that_leaves_nothing_says_so_in_its_last_status(machine: Machine):
    job = machine.run("open('/tmp/model.pt', 'w').close()")
    last = job.history().transitions[-1]
    assert last.secondary == "Completed"
    assert "Nothing was written to /opt/ml/model or the working folder" in last.message


def test_a_job_that_leaves_something_does_not(machine: Machine):
    for script in (WRITES, "open('/opt/ml/model/x', 'w')", "open('/opt/ml/output/data/x', 'w')"):
        assert machine.run(script).history().transitions[-1].message == "Training job completed"


def test_they_go_with_the_job_s_data(machine: Machine):
    job = machine.run(WRITES)
    stored = machine.jobs.stored(job.name)
    assert ("files", 2, 16) in {(each.kind, each.num_files, each.size_bytes) for each in stored}
    machine.jobs.delete(job.name, data=True)
    assert kept(job) == {}


# Curves


def steps(job: Job, run: str = "runs/exp1") -> list[int]:
    found = curves.read(curves_of(job.spec), home=job.machine.settings.home).scalars
    return found[run, "loss"].steps.tolist() if (run, "loss") in found else []


@pytest.mark.parametrize(
    "config", [{}, {"TensorBoardOutputConfig": {"S3OutputPath": "s3://bucket/tb"}}]
)
def test_event_files_in_the_working_folder_are_curves_while_the_script_runs(
    machine: Machine, tmp_path: Path, config: Any
):
    if config:
        config["TensorBoardOutputConfig"]["S3OutputPath"] = str(tmp_path / "tb")
    job = machine.submit(CURVES, **config, **TRACKSIDE)
    until(lambda: len(steps(job)) == 21)
    assert not job.history().state.is_final
    until(lambda: len(machine.jobs.curve_places(job.name)) == 1)  # the list of files follows
    [place] = machine.jobs.curve_places(job.name)
    assert "runs/exp1" in {run for run, _ in curves.read(place).scalars}
    machine.go.touch()
    assert job.wait().state.status is Status.COMPLETED
    assert steps(job) == [*range(40)]
    assert kept(job) == {}
    [listed] = [each for each in machine.jobs.artifacts(job.name) if each.kind == "files"]
    [file] = listed.files
    assert file.path.startswith("runs/exp1/events.out.tfevents.")
    brought = bring_back(file, tmp_path / "back", job.name, lambda path: False)
    assert brought.path == tmp_path / "back" / file.path
    assert brought.path.read_bytes() == job.model()["copy"]
    assert folder_state(job).size_bytes == len(job.model()["copy"])


def test_curves_in_the_tensorboard_folder_need_no_configuration(machine: Machine):
    machine.go.touch()
    script = CURVES.replace("runs/exp1", "/opt/ml/output/tensorboard/a")
    assert steps(machine.run(script, **TRACKSIDE), "a") == [*range(40)]


def test_event_files_in_any_folder_are_curves_while_the_script_runs(
    machine: Machine, tmp_path: Path
):
    """Also what is written after the last look, though the script removes the folder."""
    folder = tmp_path / "elsewhere" / "run1"
    script = CURVES.replace("runs/exp1", str(folder)) + f"shutil.rmtree({str(folder)!r})"
    run = str(folder).lstrip("/")
    job = machine.submit(script, **TRACKSIDE)
    until(lambda: len(steps(job, run)) == 21)
    assert not job.history().state.is_final
    machine.go.touch()
    assert job.wait().state.status is Status.COMPLETED
    assert not folder.exists()
    assert steps(job, run) == [*range(40)]
    assert "event files elsewhere" in job.record().syncs
    assert "event files elsewhere" not in machine.run("").record().syncs


def test_event_files_among_checkpoints_are_curves_too(machine: Machine):
    script = CURVES.replace("runs/exp1", "/opt/ml/checkpoints/tb")
    job = machine.submit(script, CheckpointConfig={"S3Uri": "s3://bucket/ckpt"}, **TRACKSIDE)
    until(lambda: len(steps(job, "opt/ml/checkpoints/tb")) == 21)
    machine.go.touch()
    job.wait()
    assert steps(job, "opt/ml/checkpoints/tb") == [*range(40)]


def test_event_files_that_came_with_the_source_or_are_ignored_are_no_curves(machine: Machine):
    machine.go.touch()
    source = {
        "train.py": CURVES,
        "old/events.out.tfevents.1.host": "as sent",
        ".tracksideignore": "runs/",
    }
    job = machine.run(source, **TRACKSIDE)
    place = locate(curves_of(job.spec), home=machine.settings.home)
    runs = {source.folder for source in by_source(list_event_files(place))}
    assert runs <= {"trackside/algo-1", "system/algo-1"}
    assert "1 file ignored by .tracksideignore (runs/exp1/events" in job.log()


def test_a_supervisor_that_takes_over_sends_no_record_twice(machine: Machine):
    job = machine.submit(CURVES, **TRACKSIDE)
    until(lambda: len(steps(job)) == 21)
    os.kill(job.supervisor_pid(), signal.SIGKILL)
    machine.go.touch()
    assert job.wait().state.status is Status.COMPLETED
    assert steps(job) == [*range(40)]
    [listed] = [each for each in machine.jobs.artifacts(job.name) if each.kind == "files"]
    assert [file.size_bytes for file in listed.files] == [len(job.model()["copy"])]


# As another user


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setenv("TRACKSIDE_RUN_AS", str(FIRST))
    monkeypatch.setenv("TRACKSIDE_PYTHON", python_for_all())
    with made_machine(tmp_path) as machine:
        yield machine


@needs_other_users
def test_another_user_s_files_are_kept_and_no_link_of_its_is_followed(shared: Machine):
    secret = shared.folder / "secret"
    secret.mkdir(mode=0o700)
    (secret / "key").write_text("the secret")
    (secret / "events.out.tfevents.9.host").write_text("the secret")
    script = f"""
import os
os.makedirs("runs/exp1")
os.symlink({str(secret)!r}, "folder")
os.symlink({str(secret / "key")!r}, "file")
os.symlink({str(secret / "events.out.tfevents.9.host")!r}, "runs/events.out.tfevents.9.host")
open("out.csv", "w").write("step,loss")
open("runs/exp1/events.out.tfevents.1.host", "wb").write(b"whatever")
"""
    job = shared.run(script)
    assert job.history().state.status is Status.COMPLETED, job.history().failure_reason
    assert kept(job) == {"out.csv": b"step,loss"}
    assert [each.num_files for each in folder_state(job).left_out] == [3]
    [listed] = [each for each in shared.jobs.artifacts(job.name) if each.kind == "files"]
    assert [file.path for file in listed.files] == [
        "out.csv",
        "runs/exp1/events.out.tfevents.1.host",
    ]
    for path in shared.settings.layout.buckets.rglob("*"):
        assert not path.is_file() or b"the secret" not in path.read_bytes(), path
