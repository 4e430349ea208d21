"""Hosts that share nothing but a store, under crash, delay, duplication, reordering, outages,
networks that are cut and machines that stand still. A seed plays the same way each time.
"""

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.bounded import play
from tests.fuzz.rounds import rounds
from tests.fuzz.simulated_hosts import Asker, Host, Placement, Store, Violation, World
from trackside.coordination import mirror_state, mirror_steps
from trackside.coordination.documents import STOP

FAULTY_SECONDS = 150.0
QUIET_SECONDS = 3000.0
NUM_SEEDS = max(500, rounds(50))


def test_no_seed_breaks_an_invariant():
    play(simulated_job, NUM_SEEDS)


def simulated_job(random: Random, folder: Path) -> None:
    """One round: a job from its first group to its end, and what must hold then."""
    simulate(random)


def simulate(random: Random) -> Counter[str]:
    """The faults that happened. `Violation` if an invariant broke."""
    world = World(random)
    store = Store(world)
    lease = random.choice((12.0, 30.0))
    asked = random.choices((STOP, "flight_recorder"), (1, 3), k=random.randrange(4))
    is_endless = STOP in asked and random.random() < 0.5
    num_hosts = random.choice((1, 2, 3, 4))
    placement = Placement(world, store, num_hosts, lease, is_endless=is_endless)
    asker = Asker(world, store, placement.hosts)
    placement.reconcile()
    for what in asked:
        world.at(random.uniform(0, FAULTY_SECONDS), partial(asker.ask, what))
    trouble(world, store, placement)
    world.run(FAULTY_SECONDS)
    world.is_faulty = False
    store.come_back()
    for host in placement.all_hosts:
        host.is_cut_off = host.is_frozen = False
    world.run(FAULTY_SECONDS + QUIET_SECONDS, lambda: is_settled(placement))
    check_end(world, store, placement)
    return world.faults


def trouble(world: World, store: Store, placement: Placement) -> None:
    """Something goes wrong every now and then."""
    random = world.random

    def go_wrong() -> None:
        if not world.is_faulty:
            return
        seconds = random.choice((1.0, 10.0, 60.0))
        hosts = [host for host in placement.all_hosts if host.is_running]
        host = random.choice(hosts) if hosts else None
        if world.happens("store away", 0.2):
            store.go_away()
            world.at(seconds, store.come_back)
        elif host is not None:
            trouble_of(world, host, seconds)
        world.at(random.uniform(1, 30), go_wrong)

    world.at(random.uniform(0, 30), go_wrong)


def trouble_of(world: World, host: Host, seconds: float) -> None:
    if world.happens("cut off", 0.3):
        host.is_cut_off = True
        world.at(seconds, lambda: setattr(host, "is_cut_off", False))
    elif world.happens("frozen", 0.2):
        host.is_frozen = True
        world.at(seconds, lambda: setattr(host, "is_frozen", False))
    elif world.happens("killed", 0.3):
        host.crash()
    elif world.happens("machine lost", 0.1):
        host.lose()


def is_settled(placement: Placement) -> bool:
    hosts = placement.all_hosts
    return placement.end is not None and all(host.left or host.is_gone for host in hosts)


def check_end(world: World, store: Store, placement: Placement) -> None:
    waiting = [
        f"{host.name} of epoch {host.epoch} ({host.disk.phase})"
        for host in placement.all_hosts
        if not host.left and not host.is_gone
    ]
    if waiting:
        raise Violation(f"waiting for ever: {waiting}")
    if placement.end is None:
        raise Violation("the job has no end")
    for host in placement.groups[-1]:
        if host.left == "final" and host.disk.journal != placement.end:
            raise Violation(f"{host.name} ended with another journal")
    leads = [host for host in placement.all_hosts if host.is_lead and host.left == "final"]
    swept = [host for host in leads if not host.state.over]
    names = {f"{host.epoch}/lead.json" for host in swept} & set(store.objects)
    if names and not world.faults["put applied late"]:
        raise Violation(f"left in the store: {names}")


def test_every_kind_of_fault_happens():
    faults: Counter[str] = Counter()
    for seed in range(60):
        faults += simulate(Random(seed))
    assert set(faults) == {
        "answer lost", "crash", "crash between writes", "cut off", "event again, later", "frozen",
        "killed", "machine lost", "old listing", "placed again by mistake", "put applied late",
        "request again, later", "request lost", "stalled between requests", "store away",
    }  # fmt: skip


def counts_all_time(plan, state, event, now, *, step=mirror_steps.step):
    """Broken: a store that is away counts as silence of the others."""
    after, commands = step(plan, state, event, now)
    return replace(after, read_at=after.read_at or state.read_at), commands


def any_journal(state, found):
    """Broken: whatever was read is newer."""
    if found is None:
        return state, []
    return replace(state, journal=found), [mirror_state.WriteJournal(found)]


def no_fence(plan, state, event):
    """Broken: another epoch is none of this host's business."""
    return replace(state, epoch_etag=event.etag)


def no_condition(name, content, replaces=None):
    """Broken: the journal is replaced, whoever wrote it."""
    return mirror_state.Put(name, content, None)


def stop_forgotten(plan, state, event, *, got=mirror_steps._got_request):
    """Broken: a request to stop is removed, and that is all."""
    after, commands = got(plan, state, event)
    return after, [each for each in commands if not isinstance(each, mirror_state.StopJob)]


@pytest.mark.parametrize(
    ("decision", "broken", "seen"),
    [
        ("step", counts_all_time, "was taken for lost after"),
        ("_take_journal", any_journal, "went back to an older journal"),
        ("_got_epoch", no_fence, "waiting for ever"),
        ("Put", no_condition, "a group of before replaced"),
        ("_over_if_lead_is_lost", lambda plan, state: state, "waiting for ever"),
        ("_got_request", stop_forgotten, "waiting for ever"),
    ],
    ids=["silence", "old journal", "no fence", "no condition", "lead never lost", "no stop"],
)
def test_a_broken_decision_is_found(decision, broken, seen, monkeypatch):
    monkeypatch.setattr(mirror_steps, decision, broken)
    if decision == "step":
        monkeypatch.setattr(mirror_state.Plan, "step_seconds", 1e9)
    assert seen in first_violation(seen, range(400))


def first_violation(seen: str, seeds: range) -> str:
    for seed in seeds:
        try:
            simulate(Random(seed))
        except Violation as violation:
            if seen in str(violation):
                return str(violation)
    return "nothing was found"
