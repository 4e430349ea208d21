"""The decisions of one job under thousands of seeds of crash, delay, duplicate and clock jump.

`simulated_machine` and `simulated_job` are the world; here is what happens in it by a seed, and
`simulated_invariants` is what must hold. `DRILL_SEED=N` plays that seed alone,
`DRILL_SEEDS=N` plays as many.
"""

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from random import Random

from benchmarks.drill.case import Case, Result, broke, held
from benchmarks.drill.ground import Ground
from benchmarks.drill.simulated_invariants import Invariants
from benchmarks.drill.simulated_job import Job, Request, Server, Stopper, Submitter
from benchmarks.drill.simulated_machine import Machine, Violation
from trackside.records.hosts import Phase
from trackside.records.status import Secondary

NUM_SEEDS = 10_000
_BATCH = 100
_MOST_FAULTY_STEPS = 300
_QUIET_STEPS = 4000
_STEPS_SECONDS = (0.05, 0.05, 0.5, 0.5, 0.5, 2.0, 2.0, 15.0)
_STOPPED_AT = (
    Secondary.STARTING,
    Secondary.DOWNLOADING,
    Secondary.TRAINING,
    Secondary.UPLOADING,
    Phase.ENDED,
)
_LONG_STEPS_SECONDS = (100.0, 700.0)


@dataclass(slots=True)
class Played:
    """What some seeds came to."""

    num_seeds: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def add(self, other: "Played") -> None:
        self.num_seeds += other.num_seeds
        self.ends += other.ends
        self.faults += other.faults
        self.violations += other.violations

    def __str__(self) -> str:
        ends = ", ".join(f"{count:,} {end}" for end, count in self.ends.most_common())
        faults = ", ".join(f"{count:,} {what}" for what, count in self.faults.most_common())
        return (
            f"{self.num_seeds:,} seeds, {sum(self.faults.values()):,} faults ({faults}); "
            f"ends: {ends}; {len(self.violations)} violations"
        )


def play(seeds: Sequence[int]) -> Played:
    played = Played()
    for seed in seeds:
        machine = Machine(Random(seed))
        try:
            end = play_one(machine)
        except Violation as error:
            played.violations.append(f"seed {seed}: {error}")
            end = "broken"
        played.num_seeds += 1
        played.ends[end] += 1
        played.faults += Counter(machine.faults)
    return played


def play_one(machine: Machine) -> str:
    """One job, from its claim to its end: how it ended. `Violation` when an invariant broke."""
    random = machine.random
    request = _request(random)
    job = Job(machine, request)
    invariants = Invariants(job)
    if request.is_queued:
        machine.journal.open_queued("Waiting", key="K")
    else:
        machine.journal.open(owner="somebody")
        machine.start(Submitter(job))
    machine.start(Server(job))
    for _ in range(random.choice((0, 0, 1, 2))):
        machine.start(Stopper(job, at=random.choice(_STOPPED_AT)))
    for _ in range(random.randrange(_MOST_FAULTY_STEPS)):
        _step(machine, job, random.choice(_STEPS_SECONDS))
        _inject(machine, job)
        invariants.after_step()
        if invariants.is_over() and random.random() < 0.1:  # what comes after the end matters too
            break
    machine.is_faulty = False
    _see_out(machine, job, invariants)
    return str(machine.journal.read().state.secondary)


def _request(random: Random) -> Request:
    return Request(
        hosts=tuple(f"algo-{number}" for number in range(1, random.choice((1, 1, 2, 3)) + 1)),
        max_attempts=random.choice((1, 1, 2, 4)),
        max_runtime_seconds=random.choice((5.0, 60.0, 10_000.0)),
        script_seconds=random.choice((0.1, 3.0, 30.0, 200.0)),
        exit_code=random.choice((0, 0, 0, 1)),
        grace_seconds=random.choice((0.0, 2.0, 120.0)),
        is_queued=random.random() < 0.5,
    )


def _step(machine: Machine, job: Job, seconds: float) -> None:
    machine.true_seconds += seconds
    job.run_scripts()
    machine.run_all()
    if not any(isinstance(each, Server) and each.is_alive for each in machine.processes):
        machine.start(server := Server(job))
        server.resumes_at = machine.true_seconds + 20 * machine.random.random()


def _inject(machine: Machine, job: Job) -> None:
    """Between two steps, some of the time, one of the faults that no write is needed for."""
    random = machine.random
    if random.random() > 0.12:
        return
    match random.randrange(11):
        case 0 | 1 if found := machine.idle():
            machine.count("kill")
            machine.kill(random.choice(found))
        case 2 | 3:
            machine.jump_wall_clock()
        case 4:
            machine.freeze_one()
        case 5:
            machine.count("long pause")
            machine.true_seconds += random.choice(_LONG_STEPS_SECONDS)
        case 6 if random.random() < 0.3:
            machine.reboot()
        case 7 | 8 | 9:
            _hit_script(machine, job)
        case _:
            _duplicate(machine, job)


def _hit_script(machine: Machine, job: Job) -> None:
    alive = [script for script in machine.disk.scripts.values() if script.is_alive]
    if not alive:
        return
    script = machine.random.choice(alive)
    if machine.random.random() < 0.5:
        machine.count("script killed")
        script.end(-9)
    else:
        machine.count("init killed")
        script.lose("the sandbox's init was killed")


def _duplicate(machine: Machine, job: Job) -> None:
    """What is there already comes once more: a second server that reconciles, a second stop."""
    machine.count("duplicate")
    if job.num_stops and machine.random.random() < 0.5:
        machine.start(Stopper(job))
    else:
        machine.start(Server(job))


def _see_out(machine: Machine, job: Job, invariants: Invariants) -> None:
    """No more faults: whatever had happened before, the job comes to its end."""
    for _ in range(_QUIET_STEPS):
        _step(machine, job, 0.5)
        invariants.after_step()
        if invariants.is_over():
            break
    invariants.at_end()


def simulate(ground: Ground) -> Result:
    if seed := os.environ.get("DRILL_SEED"):
        played = play([int(seed)])
    else:
        played = play_all(int(os.environ.get("DRILL_SEEDS", NUM_SEEDS)), ground)
    if not played.violations:
        return held(str(played))
    path = ground.evidence("violations.txt", "\n".join(played.violations) + "\n")
    first = played.violations[0]
    again = f"DRILL_SEED={first.split(':')[0].removeprefix('seed ')} plays it again"
    return broke(str(played), f"{first}; {again} ({path})")


def play_all(num_seeds: int, ground: Ground) -> Played:
    starts = range(0, num_seeds, _BATCH)
    batches = [range(start, min(start + _BATCH, num_seeds)) for start in starts]
    played = Played()
    with ProcessPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        for some in pool.map(play, batches):
            played.add(some)
            ground.tell(f"{played.num_seeds:,} seeds, {len(played.violations)} violations")
    return played


CASES = (Case(None, "simulation", simulate, seconds=60),)
