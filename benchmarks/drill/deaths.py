"""Processes that die: the script's, ours, all at once (cases 2, 4, 5, 6, 7)."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from benchmarks.drill.case import Case, Result, check, held
from benchmarks.drill.ground import Ground
from benchmarks.drill.job import DrillJob
from benchmarks.drill.numbered_lines import NUMBERED
from trackside.records import evaluator_process, host_processes

_KILLS = 5
_LINES = 300


def supervisor_dies(ground: Ground) -> Result:
    """The training goes on, and the next supervisor knows every line and how the script ended."""
    job = ground.submit_numbered(_LINES, hold_at=100)
    failing = ground.submit(
        f"import os, time\nwhile not os.path.exists({str(ground.go_file)!r}): time.sleep(0.02)\n"
        "raise SystemExit(7)"
    )
    job.wait_for_line("drill-line 100")
    for _ in range(_KILLS):
        job.replace_supervisor()
    ground.until(lambda: failing.secondary == "Training", "the second script runs")
    failing.kill_supervisor()
    ground.go()
    _completed_once(job)
    lines = job.count_lines(_LINES)
    check(lines.is_exact, str(lines))
    reason = failing.wait_over().failure_reason or ""
    check(failing.status == "Failed", f"exit code 7 became {failing.status}")
    check("exit code: 7" in reason, f"the exit code is not in {reason!r}")
    return held(f"{_KILLS + 1} kills, {lines}, exit code 7 known")


def script_dies(ground: Ground) -> Result:
    """Failed, with the signal and the end of standard error; what it had written is stored."""
    script = """
import sys, time
open("/opt/ml/output/data/partial.bin", "wb").write(b"p" * 1_000_000)
open("/opt/ml/checkpoints/1.pt", "wb").write(b"c" * 100_000)
for number in range(100): print("drill-line", number, flush=True)
for number in range(100): print("error text", number, file=sys.stderr, flush=True)
print("READY", flush=True)
time.sleep(600)
"""
    store = "s3://drill/checkpoints"
    job = ground.submit(script, "--checkpoint-uri", store)
    job.wait_for_line("READY")
    os.kill(script_pid(job), signal.SIGKILL)
    history = job.wait_over()
    reason = history.failure_reason or ""
    check(job.status == "Failed", f"the job is {job.status}")
    check(re.search(r"SIGKILL|signal 9", reason), f"no signal in {reason!r}")
    check("error text 99" in reason, f"the last line of standard error is not in {reason!r}")
    partial = job.output_data().get("partial.bin", b"")
    check(partial == b"p" * 1_000_000, f"{len(partial)} bytes of partial output are stored")
    checkpoint = job.stored(f"{store}/1.pt")
    check(checkpoint == b"c" * 100_000, f"{len(checkpoint)} bytes of the checkpoint are stored")
    lines = job.count_lines(100)
    check(lines.is_exact, str(lines))
    return held(f"signal and stderr in the reason, 1,100,000 bytes stored, {lines}")


def everything_dies(ground: Ground) -> Result:
    """Server, supervisor (which uploads) and rule evaluator at once; the script goes on."""
    server = ground.server()
    job = ground.submit_numbered(_LINES, "--rule", "all", hold_at=100, at=server)
    job.wait_for_line("drill-line 100")
    ground.until(lambda: evaluator_process.is_alive(job.folder.rules), "the evaluator lives")
    pids = [job.supervisor_pid(), job.evaluator_pid(), server.pid]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # so that none sees another die
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    server.kill()
    begun = time.monotonic()
    server.start()

    def is_settled() -> bool:
        supervisor = job.supervisor_pid() != pids[0]
        supervisor = supervisor and bool(host_processes.supervisor_lives(job.host()))
        evaluator = job.evaluator_pid() != pids[1] and evaluator_process.is_alive(job.folder.rules)
        return supervisor and evaluator

    ground.until(is_settled, "a new supervisor and a new evaluator", seconds=30)
    seconds = time.monotonic() - begun
    ground.go()
    _completed_once(job)
    lines = job.count_lines(_LINES)
    check(lines.is_exact, str(lines))
    return held(f"3 processes killed, settled after {seconds:.1f} s, {lines}")


_PATCH = """
import os, signal
from pathlib import Path
from trackside.placement.local import LocalPlacement
real = LocalPlacement.start
def dying(self, *args, **kwargs):
    armed = Path({armed!r})
    if not armed.exists():
        return real(self, *args, **kwargs)
    armed.unlink()
    {action}
    os.kill(os.getpid(), signal.SIGKILL)
LocalPlacement.start = dying
from trackside.cli.main import main
main()
"""
_POINTS = {"before the spawn": "pass", "after the spawn": "real(self, *args, **kwargs)"}
_OPTIONS = ("-p", "lines=100", "-p", "pause=0.01")


def dies_between_spawn_and_record(ground: Ground) -> Result:
    """Exactly one training process exists afterwards; it is adopted, not killed or doubled."""
    kills = 0
    for point, action in _POINTS.items():
        for submit in (_submit_to_dying_server, _submit_dying):
            armed = ground.folder / "armed"
            armed.touch()
            program = (sys.executable, "-c", _PATCH.format(armed=str(armed), action=action))
            name = f"killed-{kills}"
            starts = ground.folder / f"{name}.starts"
            script = f"open({str(starts)!r}, 'a').write('start\\n')\n{NUMBERED}"
            job = submit(ground, program, script, name)
            check(not armed.exists(), f"{point}: nobody reached the point")
            _completed_once(job)
            count = len(starts.read_text().splitlines())
            check(count == 1, f"{point}, {submit.__name__}: the script was started {count} times")
            lines = job.count_lines(100)
            check(lines.is_exact, f"{point}: {lines}")
            kills += 1
    return held(f"{kills} kills before and after the spawn, 1 start each, 0 lines lost")


def _submit_to_dying_server(
    ground: Ground, program: tuple[str, ...], script: str, name: str
) -> DrillJob:
    home = ground.folder / name
    home.mkdir()
    server = ground.server(home=home, program=program)
    job = ground.submit(script, *_OPTIONS, name=name, at=server)
    ground.until(lambda: not server.is_alive(), f"{name}: the server dies")
    server.start()
    return job


def _submit_dying(ground: Ground, program: tuple[str, ...], script: str, name: str) -> DrillJob:
    ended = subprocess.run(
        [*program, "run", str(ground.script(name, script)), "--name", name, *_OPTIONS],
        env=ground.environment,
        capture_output=True,
        timeout=120,
    )
    check(ended.returncode == -signal.SIGKILL, f"{name}: `run` exited {ended.returncode}")
    return ground.job(name)


def recycled_pid(ground: Ground) -> Result:
    """After a reboot a record names a pid that is somebody else's today: that one is left alone.

    The machine is not rebooted: the records of a running job are changed to name a bystander, once
    with another boot, once with another start time, and the job is stopped.
    """
    spared = 0
    for change in ("boot_id", "started"):
        bystander = subprocess.Popen(["sleep", "600"], env=ground.environment)
        ground.closing.callback(bystander.kill)
        job = ground.submit_numbered(20, pause=0, hold_at=10, name=f"recycled-{spared}")
        job.wait_for_line("drill-line 10")
        pids = [job.supervisor_pid(), job.sandbox_pid("init"), job.sandbox_pid("command")]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        _point_records_at(job, bystander.pid, change)
        ground.trackside("jobs")
        ground.trackside("stop", job.name)
        job.wait_over()
        check(bystander.poll() is None, f"a bystander was signalled (other {change})")
        bystander.kill()
        bystander.wait()
        spared += 1
    return held(f"{spared} bystanders with the pid of a dead job's processes, 0 signalled")


def _point_records_at(job: DrillJob, pid: int, change: str) -> None:
    """As after a reboot: the pid is somebody's, the boot or the start time is another."""
    supervisor = job.host().supervisor
    record = json.loads(supervisor.read_text())
    record["pid"] = pid
    sandbox = job.host().sandbox / "process.json"
    inside = json.loads(sandbox.read_text())
    for which in ("init", "command"):
        inside[which]["pid"] = pid
    if change == "boot_id":
        record["boot_id"] = inside["boot_id"] = "00000000-0000-0000-0000-000000000000"
        started = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        record["started"] = started
        for which in ("init", "command"):
            inside[which]["started"] = started
    supervisor.write_text(json.dumps(record))
    sandbox.write_text(json.dumps(inside))


def script_pid(job: DrillJob) -> int:
    """Of the script itself, which the toolkit has started."""
    return psutil.Process(job.sandbox_pid("command")).children()[-1].pid


def _completed_once(job: DrillJob) -> None:
    history = job.wait_over()
    check(job.status == "Completed", f"{job.name} is {job.status}: {history.failure_reason}")
    check(history.attempt == 1, f"{job.name} was started again: attempt {history.attempt}")


CASES = (
    Case(2, "killed between spawn and record", dies_between_spawn_and_record, seconds=25),
    Case(4, "supervisor killed", supervisor_dies, seconds=35),
    Case(5, "script killed", script_dies, seconds=6),
    Case(6, "all our processes killed at once", everything_dies, seconds=12),
    Case(7, "pid recycled", recycled_pid, seconds=12),
)
