"""A run that is looked after though what looks after it dies, or is asked to end."""

import json
import os
import signal
import time

from tests.inside.conftest import Scripts
from tests.wait import until
from trackside.records.attached_process import STALE_SECONDS
from trackside.records.host_processes import supervisor_lives
from trackside.records.layout import JobFolder
from trackside.records.status import Status


def kill_supervisor(scripts: Scripts, name: str) -> int:
    pid = int(json.loads(scripts.host(name).supervisor.read_text())["pid"])
    os.kill(pid, signal.SIGKILL)
    until(lambda: not supervisor_lives(scripts.host(name)))
    return pid


def test_a_supervisor_that_dies_is_replaced_and_the_script_not_touched(scripts: Scripts):
    script = scripts.start(
        "trackside.init(name='a'); wait_for_go(); trackside.log({'x': 1}); print('trained')\n"
    )
    scripts.until_training("a")
    kill_supervisor(scripts, "a")
    scripts.jobs.reconcile("a")
    until(lambda: supervisor_lives(scripts.host("a")))
    assert script.poll() is None
    scripts.go.touch()
    said, _ = script.communicate(timeout=120)
    assert said == "trained\n"
    record = scripts.ended("a")
    assert record.history.state.status is Status.COMPLETED
    assert record.history.attempt == 1


def test_finish_brings_back_a_supervisor_to_write_the_end(scripts: Scripts):
    script = scripts.start("trackside.init(name='a'); wait_for_go()\n")
    scripts.until_training("a")
    kill_supervisor(scripts, "a")
    scripts.go.touch()
    _, said = script.communicate(timeout=120)
    assert "a Completed after" in said


def test_whoever_looks_finds_that_all_of_it_was_killed(scripts: Scripts):
    """As Slurm does with what a job leaves running."""
    script = scripts.start("trackside.init(name='a'); wait_for_go()\n")
    scripts.until_training("a")
    kill_supervisor(scripts, "a")
    script.kill()
    script.communicate()
    [listed] = scripts.jobs.list()
    record = scripts.ended(listed.name)
    assert record.history.state.status is Status.FAILED
    assert "is gone and did not say how its run ended" in (record.history.failure_reason or "")


def test_a_run_of_another_machine_is_left_to_it_while_it_gives_signs_of_life(scripts: Scripts):
    """A home on a shared disk: the pids of a compute node mean nothing on the login node."""
    script = scripts.start("trackside.init(name='a'); wait_for_go()\n")
    scripts.until_training("a")
    host = scripts.host("a")
    until(host.record.exists)
    kill_supervisor(scripts, "a")
    caller = json.loads(host.caller.read_text())
    host.caller.write_text(json.dumps({**caller, "machine": "node-7"}))
    folder = JobFolder(host.root.parents[2])
    placed = folder.placed.read_bytes()
    scripts.jobs.reconcile("a")
    assert folder.placed.read_bytes() == placed, "a second supervisor was started"
    long_ago = time.time() - STALE_SECONDS - 60
    os.utime(host.record, (long_ago, long_ago))
    scripts.jobs.reconcile("a")
    until(lambda: supervisor_lives(host))
    scripts.go.touch()
    script.communicate(timeout=120)
    scripts.ended("a")


def test_a_script_that_does_not_stop_is_let_go_and_not_killed(scripts: Scripts):
    script = scripts.start(
        """
import trackside.inside.request
trackside.inside.request.GRACE_SECONDS = 1
trackside.init(name="a")
while not os.path.exists(os.environ["GO"]):
    try:
        trackside.log({"x": 1})
        time.sleep(0.05)
    except KeyboardInterrupt:
        print("not now", flush=True)
trackside.log({"x": 1})
time.sleep(2.1)
trackside.log({"x": 2})
print("went on")
"""
    )
    scripts.until_training("a")
    scripts.jobs.stop("a")
    record = scripts.ended("a")
    assert record.history.state.status is Status.STOPPED
    assert script.poll() is None
    scripts.go.touch()
    said, complained = script.communicate(timeout=120)
    assert script.returncode == 0
    assert said == "not now\nwent on\n"
    assert complained.count("the run was ended from outside") == 1
    assert scripts.ended("a").history == record.history


def test_a_run_that_was_deleted_meanwhile_disturbs_nobody(scripts: Scripts):
    script = scripts.start(
        """
import trackside.inside.request
trackside.inside.request.GRACE_SECONDS = 0
trackside.init(name="a")
while not os.path.exists(os.environ["GO"]):
    try:
        time.sleep(0.05)
    except KeyboardInterrupt:
        pass
trackside.log({"x": 1})
print("went on")
"""
    )
    scripts.until_training("a")
    scripts.jobs.stop("a")
    scripts.ended("a")
    scripts.jobs.delete("a", data=True)
    scripts.go.touch()
    said, _ = script.communicate(timeout=120)
    assert (script.returncode, said) == (0, "went on\n")
    assert scripts.names == []


def test_a_run_that_could_not_be_begun_is_not_left_open(scripts: Scripts):
    """The disk took the job, and then not the run's own files."""
    ran = scripts.run(
        """
from trackside.inside import console
def fail(log):
    raise OSError(28, "No space left on device")
console.open_file = lambda *given: fail(given)
trackside.init(name="a")
trackside.log({"x": 1})
print("trained")
"""
    )
    assert (ran.returncode, ran.stdout) == (0, "trained\n"), ran.stderr
    assert "not tracked: [Errno 28] No space left on device. The script goes on." in ran.stderr
    record = scripts.ended("a")
    assert record.history.state.status is Status.FAILED
    assert "trackside.init could not go on" in (record.history.failure_reason or "")
