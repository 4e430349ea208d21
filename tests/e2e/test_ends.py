"""How jobs end: failure, stop, limits, retries. Each ends once, and nothing is lost."""

import os
import signal
import time

import pytest

from tests.e2e.conftest import Job
from tests.suspended_writer import suspended_writer
from tests.wait import until
from trackside.errors import JobBusy
from trackside.jobs import local_controller
from trackside.records.death import Cause, Death
from trackside.records.hosts import Phase
from trackside.records.status import Secondary, Status

SAVES_ON_TERM = """
import signal, sys, time
def save(*_):
    open("/opt/ml/model/last.txt", "w").write("saved on TERM")
    print("SAVED", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("READY", flush=True)
time.sleep(600)
"""

IGNORES_TERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("/opt/ml/model/early.txt", "w").write("early")
print("READY", flush=True)
time.sleep(600)
"""


def test_a_script_that_raises_fails_the_job_with_its_last_words(machine):
    job = machine.run(
        "open('/opt/ml/output/data/partial.txt', 'w').write('kept')\n"
        "raise ValueError('the learning rate is a pumpkin')"
    )
    answer = job.describe()
    assert answer["TrainingJobStatus"] == "Failed"
    assert answer["FailureReason"].startswith("AlgorithmError: ExecuteUserScriptError:")
    assert "the learning rate is a pumpkin, at train.py:2 in <module>" in answer["FailureReason"]
    assert answer["FailureReason"].endswith("exit code: 1")
    assert answer["Trackside"]["death"] == {"cause": "code", "host": "algo-1", "attempt": 1}
    assert job.output_data() == {"partial.txt": b"kept"}
    error = machine.jobs.failure_of(job.name)
    assert "trackside logs" in str(error)


def test_a_script_s_own_failure_text_is_kept(machine):
    job = machine.run(
        "import sys; open('/opt/ml/output/failure', 'w').write('no data for 2026'); sys.exit(7)"
    )
    assert job.describe()["FailureReason"] == "AlgorithmError: no data for 2026, exit code: 7"


@pytest.mark.parametrize(
    ("number", "reported", "cause"),
    [
        (signal.SIGKILL, "The script was killed by SIGKILL after ", Cause.SIGNAL),
        (signal.SIGSEGV, "The script crashed with SIGSEGV after ", Cause.CODE),
    ],
)
def test_a_script_ended_by_a_signal_fails_with_the_signal(machine, number, reported, cause):
    job = machine.run(f"import os; os.kill(os.getpid(), {int(number)})")
    answer = job.describe()
    assert answer["TrainingJobStatus"] == "Failed"
    assert answer["FailureReason"].startswith(
        f'AlgorithmError: ExecuteUserScriptError:\nExitCode {-number}\nErrorMessage "{reported}'
    )
    assert answer["FailureReason"].endswith(f"exit code: {-number}")
    assert answer["Trackside"]["death"] == {"cause": cause, "host": "algo-1", "attempt": 1}


def test_a_message_of_kilobytes_leaves_the_place_and_the_lines_around_it(machine):
    job = machine.run("def main():\n    raise ValueError('word ' * 1500)\n\n\nmain()\n")
    reason = job.describe()["FailureReason"]
    assert "ValueError: word word" in reason
    assert "word…, at train.py:2 in main\n" in reason
    assert reason.endswith("exit code: 1")
    lines = str(machine.jobs.failure_of(job.name)).splitlines()
    assert max(map(len, lines)) < 600
    assert "  |     raise ValueError('word ' * 1500)" in lines


def test_a_toolkit_that_is_killed_is_reported_with_the_script_s_last_line(machine):
    job = machine.run(
        "import os, signal, time\n"
        "print('epoch 3', flush=True)\n"
        "os.kill(os.getppid(), signal.SIGKILL)\n"
        "time.sleep(600)\n"
    )
    reason = job.describe()["FailureReason"]
    assert reason.startswith(
        "AlgorithmError: The toolkit, which runs the script, was killed by SIG"
    )
    assert reason.endswith("Last line: epoch 3, exit code: -9")


def test_a_command_that_fails_in_silence_is_reported_with_its_time(machine):
    job = machine.run(
        "", AlgorithmSpecification={"ContainerEntrypoint": ["sh", "-c", "sleep 0.3; exit 3"]}
    )
    reason = job.describe()["FailureReason"]
    assert reason.startswith("AlgorithmError: The command ended after ")
    assert reason.endswith(" s without an error message, exit code: 3")


def test_stop_lets_the_script_save_and_uploads_what_it_saved(machine):
    job = machine.submit(SAVES_ON_TERM)
    job.wait_for_line("READY")
    machine.jobs.stop(job.name)
    machine.jobs.stop(job.name)
    history = job.wait()
    assert history.state.status is Status.STOPPED
    assert [t.secondary for t in history.transitions][-3:] == [
        Secondary.STOPPING,
        Secondary.UPLOADING,
        Secondary.STOPPED,
    ]
    assert job.model() == {"last.txt": b"saved on TERM"}
    assert "SAVED" in job.lines()


def test_stop_does_not_wait_without_end_for_a_suspended_writer(machine, monkeypatch):
    job = machine.submit(SAVES_ON_TERM)
    job.wait_for_line("READY")
    with suspended_writer(job.folder.journal) as pid:
        monkeypatch.setattr(local_controller, "LOCK_SECONDS", 0.05)
        with pytest.raises(JobBusy) as busy:
            machine.jobs.stop(job.name)
        assert busy.value.holder == pid
    monkeypatch.undo()
    machine.jobs.stop(job.name)
    assert job.wait().state.status is Status.STOPPED


def test_a_script_that_ignores_term_is_killed_after_the_grace(machine):
    job = machine.submit(IGNORES_TERM, Trackside={"GraceSeconds": 1})
    job.wait_for_line("READY")
    machine.jobs.stop(job.name)
    assert job.wait().state.status is Status.STOPPED
    assert job.model() == {"early.txt": b"early"}


def test_the_time_limit_ends_a_job_as_the_contract_says(machine):
    job = machine.submit(SAVES_ON_TERM, StoppingCondition={"MaxRuntimeInSeconds": 4})
    history = job.wait()
    assert history.state.secondary is Secondary.MAX_RUNTIME_EXCEEDED
    assert history.state.status is Status.STOPPED
    assert history.death == Death(cause=Cause.TIME_LIMIT)
    if "READY" in job.lines():  # on a slow machine the time was over before it could begin
        assert job.model() == {"last.txt": b"saved on TERM"}


def test_children_that_left_the_process_group_are_gone_with_the_job(machine):
    job = machine.run(
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        "print('CHILD', child.pid, flush=True)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(300)\n"
        "    os._exit(0)\n"
    )
    assert job.history().state.status is Status.COMPLETED
    with pytest.raises(ProcessLookupError):
        os.kill(int(job.said("CHILD")), 0)


CHECKPOINTS = {"S3Uri": "s3://bucket/checkpoints"}

COUNTS = """
import os, pathlib, signal, sys, time
folder = pathlib.Path("/opt/ml/checkpoints")
done = folder / "step.txt"
step = int(done.read_text()) if done.exists() else 0
print("RESUMED", step, flush=True)
while step < 3:
    step += 1
    new = folder / "step.tmp"
    new.write_text(str(step))
    new.rename(done)
    time.sleep(0.1)
"""


DIES_ONCE_AT_STEP_2 = """
    if step == 2 and not done.with_name("died").exists():
        done.with_name("died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_checkpoints_come_back_when_a_job_with_the_same_location_starts_again(machine):
    first = machine.run(COUNTS, CheckpointConfig=CHECKPOINTS)
    assert first.said("RESUMED") == "0"
    assert first.stored("s3://bucket/checkpoints/step.txt") == b"3"
    second = machine.run(COUNTS, CheckpointConfig=CHECKPOINTS)
    assert second.said("RESUMED") == "3"
    assert second.record().syncs["/opt/ml/checkpoints"].uploaded_bytes == 0


def test_a_checkpoint_deleted_by_the_script_is_deleted_in_storage(machine):
    job = machine.run(
        "import os, time\n"
        "open('/opt/ml/checkpoints/old.pt', 'w').write('old')\n"
        "open('/opt/ml/checkpoints/keep.pt', 'w').write('keep')\n"
        "time.sleep(4)\n"
        "os.remove('/opt/ml/checkpoints/old.pt')\n",
        CheckpointConfig=CHECKPOINTS,
    )
    place = machine.settings.layout.buckets / "bucket" / "checkpoints"
    assert job.history().state.status is Status.COMPLETED
    assert [path.name for path in place.iterdir()] == ["keep.pt"]


def test_a_script_killed_from_outside_is_tried_again_from_its_checkpoint(machine):
    script = COUNTS.replace("while step < 3:", f"while step < 3:{DIES_ONCE_AT_STEP_2}")
    job = machine.submit(
        script, CheckpointConfig=CHECKPOINTS, RetryStrategy={"MaximumRetryAttempts": 2}
    )
    history = job.wait()
    assert history.state.status is Status.COMPLETED, history.failure_reason
    assert history.attempt == 2
    assert history.death is None
    assert history.earlier_deaths == (Death(cause=Cause.SIGNAL, host="algo-1"),)
    assert "RESUMED 2" in job.log(attempt=2)
    assert Secondary.RESTARTING in [t.secondary for t in history.transitions]


def test_a_script_that_fails_by_itself_is_not_tried_again(machine):
    job = machine.run("raise SystemExit(3)", RetryStrategy={"MaximumRetryAttempts": 3})
    assert job.history().attempt == 1
    assert job.history().state.status is Status.FAILED


def test_stop_before_the_script_starts_still_ends_stopped(machine, tmp_path):
    job = machine.submit("import time; time.sleep(600)")  # should it win the race after all
    machine.jobs.stop(job.name)
    assert job.wait().state.status is Status.STOPPED


def test_outputs_are_in_storage_while_the_job_runs(machine):
    job = machine.submit(
        "import os, time\n"
        "open('/opt/ml/output/intermediate/plot.txt', 'w').write('early look')\n"
        "while not os.path.exists('/opt/ml/output/data/go'): time.sleep(0.05)\n"
    )
    place = machine.settings.layout.buckets / "bucket/out/job-1/output/intermediate/plot.txt"
    until(place.exists)
    assert job.record().phase is Phase.RUNNING
    until(lambda: job.record().syncs.get("/opt/ml/output/intermediate"))
    assert time.time() - job.record().syncs["/opt/ml/output/intermediate"].last < 3600
    (job.host().ml / "output/data/go").touch()
    assert job.wait().state.status is Status.COMPLETED


def test_a_job_submitted_by_a_job_outlives_it(machine, tmp_path):
    inner = tmp_path / "inner.py"
    inner.write_text("import time; time.sleep(2); print('inner done', flush=True)")
    outer = machine.run(
        f"from trackside import Estimator\n"
        f"Estimator(entry_point={str(inner)!r}, output_path='s3://bucket/out')"
        f".fit(wait=False, job_name='inner')\n"
    )
    assert outer.history().state.status is Status.COMPLETED, outer.log()
    job = Job(machine, "inner")
    assert job.wait().state.status is Status.COMPLETED
    assert "inner done" in job.lines()
