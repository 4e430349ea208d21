"""SIGKILL before each write of submitter, supervisor and server in the life of one job (case 1).

For every N one job is run in which one process of the role is killed before its N-th write; whoever
comes next goes on. `kill_point.c` counts the writes and kills; the product is not touched. Among
the points are those between the start of a process and its record (case 2).
"""

import hashlib
import struct
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.drill.case import Broke, Case, Result, broke, check, held
from benchmarks.drill.ground import Ground, fresh_ground
from benchmarks.drill.job import DrillJob
from benchmarks.drill.kill_loop import check_database, check_no_orphans
from benchmarks.drill.numbered_lines import MARK, count_lines
from benchmarks.drill.preloaded import built
from benchmarks.drill.server import Server
from trackside.errors import TracksideError
from trackside.records import pending_uploads
from trackside.records.host_processes import supervisor_lives

NUM_LINES = 20
_SAMPLE = 5
"""How many points of a role a short form tries: spread evenly over all."""
_SHARED = struct.Struct("qq16s472s")
_ENDED_SECONDS = 150.0

SCRIPT = f"""
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--starts")
with open(parser.parse_args().starts, "a") as file:
    file.write("started\\n")
for number in range({NUM_LINES}):
    print("{MARK}", number, flush=True)
with open("/opt/ml/model/model.txt", "w") as file:
    file.write("trained")
os.utime("/opt/ml/model/model.txt", (1_000_000_000, 1_000_000_000))
os.utime("/opt/ml/model", (1_000_000_000, 1_000_000_000))
"""


class KillPoint:
    """Where one process is to be killed, and where one was."""

    def __init__(self, folder: Path, role: str, number: int) -> None:
        self._counted: int | None = None
        self._file = folder / "kill-point"
        self._file.write_bytes(_SHARED.pack(0, number, b"", b""))
        self.variables = {
            "LD_PRELOAD": str(built("kill_point", folder)),
            "DRILL_KILL_POINT": str(self._file),
            "DRILL_KILL_ROLE": role,
            "PYTHONDONTWRITEBYTECODE": "1",
            "TRACKSIDE_STANDBY": "no",  # a supervisor has a command line of its own then
        }

    @property
    def num_writes(self) -> int:
        if self._counted is not None:
            return self._counted
        return int(_SHARED.unpack(self._file.read_bytes())[0])

    def disarm(self) -> None:
        """Nobody is counted or killed any more."""
        count, _, call, path = _SHARED.unpack(self._file.read_bytes())
        with self._file.open("r+b", buffering=0) as file:  # in place: it is mapped
            file.write(_SHARED.pack(-(1 << 62), 0, call, path))
        self._counted = count

    @property
    def was_hit(self) -> bool:
        return bool(self.where)

    @property
    def where(self) -> str:
        """The call that was never made, such as "rename …/journal.jsonl"; empty for none."""
        _, _, call, path = _SHARED.unpack(self._file.read_bytes())
        name = path.rstrip(b"\0").decode(errors="replace").rpartition("/")[2]
        return f"{call.rstrip(bytes(1)).decode()} {name}".strip()


Run = Callable[[Ground, KillPoint], DrillJob]


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    mark: str
    """Part of the command line of its processes."""
    run: Run
    """Runs the job, killed or not, and brings whoever comes next into play."""


def by_itself(ground: Ground, point: KillPoint) -> DrillJob:
    """A supervisor dies: the init of its script revives it, or the next who looks at jobs."""
    return ground.submit(SCRIPT, *_arguments(ground), environment=point.variables, name="job")


def submitted_again(ground: Ground, point: KillPoint) -> DrillJob:
    """A submitter dies: its user looks, and submits again if there is no such job."""
    command = ("run", str(ground.script("job", SCRIPT)), "--name", "job", *_arguments(ground))
    ground.trackside(*command, environment=point.variables, expect=None)
    job = ground.job("job")
    ground.trackside("jobs")
    if not job.folder.journal.exists():
        ground.trackside(*command)
    return job


def through_a_server(ground: Ground, point: KillPoint) -> DrillJob:
    """A server dies, also while it starts: it is started again; a client whose request failed
    submits again if there is no such job."""
    server = _started(ground, point)
    command = ("run", str(ground.script("job", SCRIPT)), "--name", "job", *_arguments(ground))
    client = ground.spawn(*command, at=server)
    deadline = time.monotonic() + _ENDED_SECONDS
    job = ground.job("job", at=server)
    while True:
        if not server.is_alive():
            server.start()
        is_over = job.folder.journal.exists() and job.is_over()
        if client.poll() is not None and not job.folder.journal.exists():
            client = ground.spawn(*command, at=server)
        if is_over and client.poll() is not None:
            point.disarm()
            return job
        check(time.monotonic() < deadline, f"not over within {_ENDED_SECONDS:g} s")
        time.sleep(0.05)


def _started(ground: Ground, point: KillPoint) -> Server:
    """It may be killed before it answers."""
    ground.environment.update(point.variables)
    try:
        return ground.server("--quiet")
    except Broke:
        check(point.was_hit, "the server did not start")
        return ground.server("--quiet")


def _arguments(ground: Ground) -> tuple[str, ...]:
    return ("-p", f"starts={ground.folder / 'starts'}")


ROLES = (
    Role("supervisor", "-m trackside.supervisor", by_itself),
    Role("submitter", "-m trackside.cli run", submitted_again),
    Role("server", "-m trackside.cli server", through_a_server),
)


@dataclass(frozen=True, slots=True)
class Tried:
    where: str
    """Empty when nobody was killed."""
    num_writes: int
    model: str
    """The sha256 of model.tar.gz."""
    problem: str = ""


def try_point(role: Role, number: int) -> Tried:
    """On ground of its own, so that nothing of one point is there at the next."""
    with fresh_ground(keep=False) as ground:
        point = KillPoint(ground.folder, role.mark, number)
        model, problem = "", ""
        try:
            job = role.run(ground, point)
            model = check_once(ground, job)
        except (Broke, TracksideError, OSError, subprocess.SubprocessError) as error:
            problem = f"{role.name} killed before write {number} ({point.where}): {error}"
        return Tried(point.where, point.num_writes, model, problem)


def check_once(ground: Ground, job: DrillJob) -> str:
    """One training, every line once, nothing half: the sha256 of the model."""
    history = job.wait_over(seconds=_ENDED_SECONDS)
    ground.until(partial(_is_wound_up, job), "what follows the final status is done")
    check(job.status == "Completed", f"{job.status}: {history.failure_reason}")
    starts = (ground.folder / "starts").read_text().count("started")
    check(starts == 1, f"the training was started {starts} times")
    lines = job.count_lines(NUM_LINES)
    check(lines.is_exact, str(lines))
    on_disk = count_lines(job.raw_log(), NUM_LINES)
    check(on_disk.is_exact, f"the log file: {on_disk}")
    check(job.stored(job.keys.journal) == job.folder.journal.read_bytes(), "another journal")
    check(job.stored(job.keys.spec) == job.folder.spec.read_bytes(), "another job.json in store")
    check(b"model.tar.gz" in job.stored(job.keys.artifacts), "artifacts.json names no model")
    buckets = job.home.buckets  # a server sweeps them after its start
    ground.until(lambda: not [*buckets.rglob("*.part")], "nothing half-written is in the store")
    if job.at is not None:
        check_database(job.at)
    check_no_orphans(ground)
    return hashlib.sha256(job.stored(job.keys.model)).hexdigest()


def _is_wound_up(job: DrillJob) -> bool:
    """Who died between the final status and the last upload is followed by the next who looks."""
    if job.at is None and pending_uploads.noted(job.home):
        job.ground.trackside("jobs")
    return not pending_uploads.noted(job.home) and not any(
        map(supervisor_lives, job.host_folders())
    )


def matrix(ground: Ground, *, roles: Iterable[Role] = ROLES, sample: int | None = None) -> Result:
    figures, problems = [], []
    for role in roles:
        whole = try_point(role, 0)  # nobody is killed: how many there are, and what comes out
        if whole.problem:
            raise Broke(whole.problem)
        tried = [
            try_point(role, number)
            for number in reported(ground, role, chosen(whole.num_writes, sample), whole.num_writes)
        ]
        hit = [each for each in tried if each.where]
        problems += [each.problem for each in tried if each.problem]
        problems += [
            f"{role.name} killed before {each.where}: another model"
            for each in tried
            if not each.problem and each.model != whole.model
        ]
        figures.append(f"{role.name} killed before {len(hit)} of {whole.num_writes} writes")
    figure = f"{', '.join(figures)}; {len(problems)} went wrong"
    if not problems:
        return held(f"{figure}: one training each, the same model, every line once")
    path = ground.evidence("problems.txt", "\n".join(problems) + "\n")
    return broke(figure, f"{problems[0]} ({path})")


def reported(ground: Ground, role: Role, numbers: list[int], most: int) -> Iterable[int]:
    for number in numbers:
        ground.tell(f"{role.name}, write {number} of {most}")
        yield number


def chosen(most: int, sample: int | None) -> list[int]:
    """All points, or as many as asked for, spread over all."""
    if sample is None or sample >= most:
        return list(range(1, most + 1))
    return [1 + number * (most - 1) // (sample - 1) for number in range(sample)]


CASES = (
    Case(1, "sample of write points", partial(matrix, sample=_SAMPLE), seconds=90),
    *(
        Case(
            1,
            f"write points of the {role.name}",
            partial(matrix, roles=(role,)),
            seconds=600,
            nightly=True,
        )
        for role in ROLES
    ),
)
