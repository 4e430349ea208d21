"""SIGKILL for our own processes, one by one and all at once: the job still ends right."""

import json
import os
import signal

from tests.e2e.conftest import Job
from tests.fault_proxy import Fault
from tests.wait import until
from trackside.records import pending_uploads
from trackside.records.death import Cause, Death
from trackside.records.host_processes import supervisor_lives
from trackside.records.layout import JobKeys
from trackside.records.status import Secondary, Status

HELD = """
import os, time
for number in range(30):
    print("line", number, flush=True)
    while number == 9 and not os.path.exists(os.environ["GO"]):
        time.sleep(0.05)
open("/opt/ml/model/m.txt", "w").write("trained to the end")
"""

LINES = [f"line {number}" for number in range(30)]


def test_the_supervisor_s_death_costs_nothing(machine):
    job = machine.submit(HELD)
    job.wait_for_line("line 9")
    kill_supervisor(job)
    machine.go.touch()
    history = job.wait()
    assert history.state.status is Status.COMPLETED, history.failure_reason
    assert history.attempt == 1
    assert [line for line in job.lines() if line.startswith("line")] == LINES
    assert job.model() == {"m.txt": b"trained to the end"}


def test_the_supervisor_may_die_again_and_again(machine):
    job = machine.submit(HELD)
    job.wait_for_line("line 9")
    for _ in range(2):
        kill_supervisor(job)
    machine.go.touch()
    assert job.wait().state.status is Status.COMPLETED
    assert [line for line in job.lines() if line.startswith("line")] == LINES


def test_a_job_that_lost_every_process_fails_with_a_reason_that_says_so(machine):
    job = machine.submit(HELD)
    job.wait_for_line("line 9")
    kill_all(job)
    history = job.wait()
    assert history.state.status is Status.FAILED
    assert "InternalServerError" in history.failure_reason
    assert "killed" in history.failure_reason
    assert history.death == Death(cause=Cause.SIGNAL, host="algo-1")


def test_a_machine_that_was_restarted_is_the_cause_and_uses_up_no_retry(machine):
    """Of one machine, a restart is known by the boot that its records name."""
    job = machine.submit(HELD, RetryStrategy={"MaximumRetryAttempts": 1})
    job.wait_for_line("line 9")
    kill_all(job)
    restart(job, 1)
    until(lambda: job.machine.jobs.reconcile(job.name) or "line 9" in job.log(attempt=2))
    kill_all(job, attempt=2)
    restart(job, 2)
    machine.go.touch()
    history = job.wait()
    assert history.state.status is Status.COMPLETED, history.failure_reason
    assert [each.cause for each in history.earlier_deaths] == [Cause.NODE_LOST, Cause.NODE_LOST]
    assert history.attempt == 3


def restart(job: Job, attempt: int) -> None:
    """Let the records of its sandbox be of an earlier boot."""
    for name in ("intent.json", "process.json"):
        path = job.host(attempt=attempt).sandbox / name
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "boot_id": "another"}))


def test_a_job_that_lost_every_process_is_tried_again_when_it_may(machine):
    job = machine.submit(HELD, RetryStrategy={"MaximumRetryAttempts": 1})
    job.wait_for_line("line 9")
    kill_all(job)
    machine.go.touch()
    history = job.wait()
    assert history.state.status is Status.COMPLETED
    assert history.attempt == 2
    assert job.model() == {"m.txt": b"trained to the end"}


def kill_supervisor(job: Job) -> None:
    """And wait for the next one, which nobody here starts."""
    pid = job.supervisor_pid()
    os.kill(pid, signal.SIGKILL)
    until(lambda: job.supervisor_pid() != pid)


def kill_all(job: Job, attempt: int = 1) -> None:
    """Supervisor and init first, so that neither brings the other back."""
    processes = (job.sandbox_process(which, attempt=attempt) for which in ("init", "command"))
    pids = [job.supervisor_pid(attempt=attempt), *processes]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def test_death_while_uploading_is_made_good_by_the_next_look(away, faulty, bucket):
    """The store takes no model until the one who would give it has died."""
    output = {"S3OutputPath": f"s3://{bucket}/out"}
    job = away.submit(HELD, OutputDataConfig=output)
    job.wait_for_line("line 9")
    faulty.inject(Fault(pattern=r"model\.tar\.gz", times=10_000, status=503))
    away.go.touch()
    until(lambda: job.history().state.secondary is Secondary.UPLOADING)
    os.kill(job.supervisor_pid(), signal.SIGKILL)
    faulty.clear()
    history = job.wait()
    assert history.state.status is Status.COMPLETED
    assert job.model() == {"m.txt": b"trained to the end"}


def test_death_between_the_final_status_and_the_last_upload_is_made_good(away, faulty, bucket):
    job = away.submit(HELD, OutputDataConfig={"S3OutputPath": f"s3://{bucket}/out"})
    job.wait_for_line("line 9")
    faulty.inject(Fault(pattern=r"PUT .*journal\.jsonl", times=10_000, status=503))
    away.go.touch()
    until(lambda: job.history().state.is_final, seconds=90)
    os.kill(job.supervisor_pid(), signal.SIGKILL)
    faulty.clear()
    until(lambda: not supervisor_lives(job.host()))
    assert job.host().ml.is_dir()
    away.jobs.reconcile()  # as any listing does
    until(lambda: not job.host().ml.exists(), seconds=90)
    assert job.stored(JobKeys.of(job.spec).journal) == job.folder.journal.read_bytes()
    until(lambda: pending_uploads.noted(away.settings.layout) == [])


def test_the_pipes_of_a_dead_supervisor_are_fed_by_the_next(machine):
    data = machine.settings.layout.buckets / "bucket" / "data"
    data.mkdir(parents=True)
    (data / "a.txt").write_text("epoch of data")
    script = """
import os, time
print("READ", open("/opt/ml/input/data/train_0").read(), flush=True)
while not os.path.exists("/opt/ml/output/data/go"): time.sleep(0.05)
print("AGAIN", open("/opt/ml/input/data/train_1").read(), flush=True)
"""
    source = {"S3Uri": "s3://bucket/data/"}
    train = {"ChannelName": "train", "DataSource": {"S3DataSource": source}, "InputMode": "Pipe"}
    job = machine.submit(script, InputDataConfig=[train])
    job.wait_for_line("READ epoch of data")
    kill_supervisor(job)
    (job.host().ml / "output/data/go").touch()
    assert job.wait().state.status is Status.COMPLETED
    assert job.said("AGAIN") == "epoch of data"


def test_the_submitter_s_terminal_may_close(machine, tmp_path):
    """A session leader with a terminal submits and is hung up; the job goes on."""
    import pty
    import sys
    import textwrap

    script = tmp_path / "train.py"
    script.write_text("import time; time.sleep(1.5); print('still here', flush=True)")
    submit = textwrap.dedent(f"""
        import os
        from trackside import Estimator
        Estimator(entry_point={str(script)!r}).fit(wait=False, job_name="hung-up")
        print("submitted", flush=True)
        import time; time.sleep(600)
    """)
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup` may be around the tests
        os.execv(sys.executable, [sys.executable, "-c", submit])
    output = b""
    while b"submitted" not in output:
        output += os.read(terminal, 1000)
    os.close(terminal)
    os.waitpid(pid, 0)
    job = Job(machine, "hung-up")
    assert job.wait().state.status is Status.COMPLETED
    assert "still here" in job.lines()
