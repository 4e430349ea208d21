"""Many jobs on one machine: what those cost that do nothing, how long a server takes to come back
to those that run, and how fast it lists them among thousands that have ended.

Idle jobs are real ones. Those that a restarted server finds have a stand-in for a supervisor, a
process of a few megabytes that says who it is and sleeps: five hundred real ones do not fit into
the memory of the machine that is measured on. Jobs that have ended are their folders and journals.
All of them end by themselves, however this program does.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.report import Comparison, Target
from benchmarks.running_server import RunningServer, running_server
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import spec_bytes
from trackside.records.journal import Journal
from trackside.records.layout import Home
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary
from trackside.settings import Settings
from trackside.system import processes
from trackside.system.processes import Identity

IDLE_JOBS, RUNNING_JOBS, ENDED_JOBS = 200, 500, 10_000
IDLE_PERCENT, RESTART_SECONDS, LIST_MS = 10.0, 10.0, 300.0
BAR = "the bar"
GROUP = 10
"""So many jobs are started at a time."""
LIFE_SECONDS = 1500
SETTLE_SECONDS = 150.0
"""After the last start: supervisors look the less often the longer nothing happens."""
LOOK_SECONDS = 60.0
_PATIENCE_SECONDS = 300.0
_SLEEPER = "import time\nfor _ in range({}): time.sleep(1)\n"
_STAND_IN = """\
import json, os, sys, time
folder, host, nonce = sys.argv[1:]
with open("/proc/self/stat", "rb") as file:
    started = int(file.read().rpartition(b")")[2].split()[19])
with open("/proc/sys/kernel/random/boot_id") as file:
    boot_id = file.read().strip()
record = {"pid": os.getpid(), "started": started, "boot_id": boot_id, "nonce": nonce}
path = f"{folder}/hosts/{host}/1/supervisor.json"
with open(path + ".new", "w") as file:
    json.dump(record, file)
os.rename(path + ".new", path)
time.sleep(float(os.environ["LIFE_SECONDS"]))
"""


def run(quick: bool = False) -> Iterator[Comparison]:
    share = 20 if quick else 1
    yield _idle(IDLE_JOBS // share, LOOK_SECONDS / (6 if quick else 1))
    yield from _served(RUNNING_JOBS // share, ENDED_JOBS // share)


# Jobs that do nothing


def _idle(count: int, look_seconds: float) -> Comparison:
    peer = f"{count} Python processes that wake once a second"
    with tempfile.TemporaryDirectory() as folder, _peers(count) as pids:
        jobs = _jobs(Path(folder))
        source = _packed(Path(folder))
        names = [f"idle-{number}" for number in range(count)]
        try:
            _start(jobs, [_spec(name, source) for name in names])
            time.sleep(SETTLE_SECONDS)
            ours, theirs, load = _percent(jobs.settings.layout, pids, look_seconds)
        finally:
            _stop(jobs, names)
    kinds = ", ".join(f"{kind} {percent / count:.4f} %" for kind, percent in ours.items())
    return Comparison(
        f"{count} jobs whose scripts sleep: processor time of all their processes",
        "% of one core",
        {"trackside": sum(ours.values()), BAR: IDLE_PERCENT * count / IDLE_JOBS, peer: theirs},
        targets=(Target(BAR, 1.0),),
        notes=(f"Of one job: {kinds}. Over {look_seconds:.0f} s, load {load}.",),
    )


def _jobs(folder: Path, **options: Any) -> Jobs:
    variables = {"TRACKSIDE_HOME": str(folder / "home"), "TRACKSIDE_S3": "embedded"}
    settings = Settings.load(variables)
    return Jobs(settings, {**os.environ, **variables, "LIFE_SECONDS": str(LIFE_SECONDS)}, **options)


def _packed(folder: Path) -> Path:
    archive, script = folder / "source.tar.gz", folder / "train.py"
    script.write_text(f"import time\ntime.sleep({LIFE_SECONDS})\n")
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(script, script.name)
    return archive


def _spec(name: str, source: Path) -> JobSpec:
    program = {"sagemaker_program": "train.py", "sagemaker_submit_directory": str(source)}
    return JobSpec.from_request(
        {
            "TrainingJobName": name,
            "HyperParameters": program,
            "OutputDataConfig": {"S3OutputPath": "s3://out/runs"},
            "StoppingCondition": {"MaxRuntimeInSeconds": LIFE_SECONDS},
        }
    )


def _start(jobs: Jobs, specs: Sequence[JobSpec]) -> None:
    """Group by group: hundreds that start at once would only wait for each other."""
    for begin in range(0, len(specs), GROUP):
        group = specs[begin : begin + GROUP]
        for spec in group:
            jobs.submit(spec)
        for spec in group:
            journal = Journal(jobs.settings.layout.job(spec.name).journal)
            _until(lambda journal=journal: _is_training(journal))  # type: ignore[misc]


def _is_training(journal: Journal) -> bool:
    history = journal.read()
    if history.state.is_final:
        raise RuntimeError(f"a job ended: {history.failure_reason}")
    return history.state.secondary is Secondary.TRAINING


def _stop(jobs: Jobs, names: Sequence[str]) -> None:
    for begin in range(0, len(names), GROUP):
        group = [name for name in names[begin : begin + GROUP] if _is_there(jobs, name)]
        for name in group:
            jobs.stop(name)
        for name in group:
            jobs.wait(name, timeout_seconds=_PATIENCE_SECONDS)
    _until(lambda: not _processes(jobs.settings.layout))


def _is_there(jobs: Jobs, name: str) -> bool:
    return jobs.settings.layout.job(name).journal.exists()


@contextmanager
def _peers(count: int) -> Iterator[list[int]]:
    command = [sys.executable, "-I", "-S", "-c", _SLEEPER.format(LIFE_SECONDS)]
    started = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def _percent(
    home: Home, peers: Sequence[int], seconds: float
) -> tuple[dict[str, float], float, str]:
    """Of one core, by kind of process and of the peers, and the machine's load meanwhile."""
    before = {pid: _cpu(pid) for pid in [*_processes(home), *peers]}
    began = time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - began
    kinds: dict[str, float] = {}
    for pid, kind in _processes(home).items():
        used = (_cpu(pid) - before.get(pid, 0.0)) / elapsed * 100
        kinds[kind] = kinds.get(kind, 0.0) + used
    theirs = sum(_cpu(pid) - before[pid] for pid in peers) / elapsed * 100
    return kinds, theirs, Path("/proc/loadavg").read_text().split()[0]


def _processes(home: Home) -> dict[int, str]:
    """Those of this home's jobs, by what they are."""
    mark, found = f"TRACKSIDE_HOME={home.root}\0".encode(), {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "environ").read_bytes():
                found[int(path.name)] = _kind((path / "cmdline").read_bytes())
        except OSError:
            continue
    found.pop(os.getpid(), None)
    return found


def _kind(command: bytes) -> str:
    for word, kind in ((b"sandbox_init", "init"), (b"toolkit", "toolkit")):
        if word in command:
            return kind
    return "supervisor" if b"trackside.supervisor" in command else "script"


def _cpu(pid: int) -> float:
    """Seconds of all threads, to the nanosecond; ticks would miss what sleeps most of the time."""
    total = 0
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    except OSError:
        pass
    return total / 1e9


# A server among many jobs


def _served(num_running: int, num_ended: int) -> Iterator[Comparison]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs = _jobs(folder, supervisor_command=[sys.executable, "-I", "-S", "-c", _STAND_IN])
        source = _packed(folder)
        _write_ended(jobs.settings.layout, num_ended, source)
        names = [f"running-{number}" for number in range(num_running)]
        try:
            _begin_stand_ins(jobs, names, source)
            with running_server(folder) as server:  # which makes the index, once
                _until(lambda: _is_right(server, num_running))
            began = time.monotonic()
            with running_server(folder) as server:
                _until(lambda: _is_healthy(server) and _is_right(server, num_running))
                seconds = time.monotonic() - began
                times = [_list_ms(server) for _ in range(200)]
        finally:
            _kill_stand_ins(jobs, names)
    load = Path("/proc/loadavg").read_text().split()[0]
    found = f"{num_running} running jobs and {num_ended:,} that have ended"
    yield Comparison(
        f"A server that is started again, with {found}",
        "s until it is healthy and its list is right",
        {"trackside": seconds, BAR: RESTART_SECONDS},
        targets=(Target(BAR, 1.0),),
        notes=(f"From the start of the process. Load {load}.",),
    )
    yield Comparison(
        f"ListTrainingJobs with {found}",
        "ms, 95 of 100 calls",
        {"trackside": statistics.quantiles(times, n=20)[-1], BAR: LIST_MS},
        targets=(Target(BAR, 1.0),),
        notes=(
            f"Median {statistics.median(times):.1f} ms of 200 calls for 100 jobs. Load {load}.",
        ),
    )


def _write_ended(home: Home, count: int, source: Path) -> None:
    """As they are on disk, without logs and curves, which no list looks at."""
    now = time.time()
    for number in range(count):
        folder = home.job(f"ended-{number:05d}")
        folder.root.mkdir(parents=True)
        folder.spec.write_bytes(spec_bytes(_spec(folder.root.name, source)))
        begun = now - 10 * (count - number) - 1000
        moves = ("Starting", "Downloading", "Training", "Uploading", "Completed")
        lines = [
            {"kind": "status", "secondary": move, "seq": seq, "time": begun + seq}
            for seq, move in enumerate(moves, 1)
        ]
        folder.journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def _begin_stand_ins(jobs: Jobs, names: Sequence[str], source: Path) -> None:
    for name in names:
        jobs.submit(_spec(name, source))
        journal = Journal(jobs.settings.layout.job(name).journal)
        journal.move(Secondary.DOWNLOADING)
        journal.move(Secondary.TRAINING)
    for name in names:
        place = jobs.settings.layout.job(name).host("algo-1", 1)
        _until(place.supervisor.exists)


def _kill_stand_ins(jobs: Jobs, names: Sequence[str]) -> None:
    for name in names:
        place = jobs.settings.layout.job(name).host("algo-1", 1)
        if place.supervisor.exists():
            identity = Identity.from_record(json.loads(place.supervisor.read_bytes()))
            processes.send_signal(identity, signal.SIGKILL)


def _is_healthy(server: RunningServer) -> bool:
    try:
        with urllib.request.urlopen(f"{server.client.meta.endpoint_url}/health") as answer:
            return bool(answer.status == 200)
    except urllib.error.URLError:
        return False


def _is_right(server: RunningServer, num_running: int) -> bool:
    pages = server.client.get_paginator("list_training_jobs").paginate(
        StatusEquals="InProgress", PaginationConfig={"PageSize": 100}
    )
    return sum(len(page["TrainingJobSummaries"]) for page in pages) == num_running


def _list_ms(server: RunningServer) -> float:
    began = time.monotonic()
    reported = server.client.list_training_jobs(MaxResults=100)["TrainingJobSummaries"]
    if len(reported) != 100:
        raise RuntimeError(f"{len(reported)} jobs are listed")
    return (time.monotonic() - began) * 1000


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"still waiting after {_PATIENCE_SECONDS} s")
        time.sleep(0.05)
