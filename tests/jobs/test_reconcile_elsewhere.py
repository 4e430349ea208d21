"""A group on other machines: what is done follows from what is known, and only from proof."""

from dataclasses import replace

import pytest

from tests.jobs.conftest import is_training, kill_supervisor, make_spec, num_starts
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.jobs.reconcile_elsewhere import Action, End, Place, decide, is_gone_for_sure
from trackside.jobs.revivals import MAX_REVIVALS
from trackside.placement.placement import (
    EndCause,
    Ended,
    Exited,
    Gone,
    Lost,
    Pending,
    Poll,
    Running,
    Unknown,
)
from trackside.records.death import MOST_OF_INFRASTRUCTURE, Cause, Death
from trackside.records.layout import Home
from trackside.records.placed import Placed, PlacedHost
from trackside.records.status import FIRST, Secondary, State, Status
from trackside.system.boot_clock import Moment

NOW = Moment("boot", 1000.0)
TRAINING = State(Status.IN_PROGRESS, Secondary.TRAINING)
STOPPING = State(Status.STOPPING, Secondary.STOPPING)
QUEUED = State(Status.IN_PROGRESS, Secondary.PENDING)
INTERRUPTED = State(Status.IN_PROGRESS, Secondary.INTERRUPTED)
CANCELLED = Ended(EndCause.CANCELLED, "by scancel")
COMPLETED = State(Status.COMPLETED, Secondary.COMPLETED)
HOSTS = {"algo-1": PlacedHost(nonce="1"), "algo-2": PlacedHost(nonce="2")}
INTENDED = Placed(hosts=HOSTS, placement="toy")
PLACED = INTENDED.after_start([*HOSTS], {"id": 1})
ASKED_TO_STOP = replace(PLACED, stop="stop")  # the engine was away
OFTEN = PLACED.with_host(
    "algo-1", replace(HOSTS["algo-1"], revivals=MAX_REVIVALS, revived=Moment("boot", 900.0))
)
LONG_AGO = PLACED.with_host(
    "algo-1", replace(HOSTS["algo-1"], revivals=MAX_REVIVALS, revived=Moment("boot", 100.0))
)
GIVEN_UP = End(
    Secondary.FAILED,
    "InternalServerError: the supervisor of algo-1 was lost 4 times in a row: down",
    Death(cause=Cause.NODE_LOST, host="algo-1"),
)
INTERRUPTED = State(Status.IN_PROGRESS, Secondary.INTERRUPTED)
TAKEN = Lost("preempted", Gone.TAKEN)


@pytest.mark.parametrize(
    ("state", "placed", "lead", "other", "expected"),
    [
        (FIRST, None, None, None, Place()),
        (FIRST, INTENDED, None, None, Place()),
        (STOPPING, INTENDED, None, None, End(Secondary.STOPPED)),
        (QUEUED, None, None, None, None),
        (COMPLETED, PLACED, Exited(0), Exited(0), None),
        (FIRST, PLACED, Pending("full"), Pending("full"), None),
        (FIRST, ASKED_TO_STOP, Pending("full"), Pending("full"), End(Secondary.STOPPED)),
        (FIRST, ASKED_TO_STOP, Running(), Pending("it starts"), None),
        (TRAINING, PLACED, Running(), Running(), None),
        (TRAINING, PLACED, Running(), Lost("preempted"), None),
        (TRAINING, PLACED, Unknown("no answer"), Lost("preempted"), None),
        (TRAINING, PLACED, None, None, None),
        (TRAINING, PLACED, Lost("preempted"), Running(), Place()),
        (TRAINING, PLACED, Exited(None), Unknown("no answer"), Place()),
        (TRAINING, OFTEN, Lost("down"), Running(), GIVEN_UP),
        (INTERRUPTED, OFTEN, TAKEN, TAKEN, Place()),  # in good order, however soon
        (
            TRAINING,
            PLACED,
            Ended(EndCause.OUT_OF_MEMORY, "OUT_OF_MEMORY"),
            None,
            End(
                Secondary.FAILED,
                "AlgorithmError: out of memory: OUT_OF_MEMORY",
                Death(cause=Cause.OUT_OF_MEMORY, memory="engine"),
            ),
        ),
        (
            TRAINING,
            PLACED,
            Ended(EndCause.TIME_LIMIT, "TIMEOUT"),
            None,
            End(Secondary.MAX_RUNTIME_EXCEEDED, None, Death(cause=Cause.TIME_LIMIT)),
        ),
        (
            TRAINING,
            PLACED,
            Ended(EndCause.IMAGE, "ErrImagePull: not found"),
            None,
            End(Secondary.FAILED, "ClientError: ErrImagePull: not found", Death(cause=Cause.IMAGE)),
        ),
        (TRAINING, PLACED, Ended(EndCause.CANCELLED, "x"), None, End(Secondary.STOPPED)),
        (TRAINING, OFTEN, Unknown("no answer"), Running(), None),
        (TRAINING, LONG_AGO, Lost("preempted"), Running(), Place()),
        (STOPPING, PLACED, Exited(None), Running(), End(Secondary.STOPPED)),
        (STOPPING, PLACED, Running(), Running(), None),
        (TRAINING, PLACED, CANCELLED, CANCELLED, End(Secondary.STOPPED)),
    ],
)
def test_what_is_done_follows_from_what_is_known(
    state: State,
    placed: Placed | None,
    lead: Poll | None,
    other: Poll | None,
    expected: Action | None,
):
    given = {"algo-1": lead, "algo-2": other}
    polls = {host: poll for host, poll in given.items() if poll is not None}
    assert decide(state, placed, polls, NOW) == expected


@pytest.mark.parametrize(
    ("state", "attempt", "lead", "expected"),
    [
        (TRAINING, 1, Exited(None), False),
        (TRAINING, 1, Lost("preempted"), False),
        (TRAINING, 1, CANCELLED, True),
        (INTERRUPTED, 1, Lost("preempted"), True),
        (INTERRUPTED, 2, Lost("preempted"), False),
    ],
)
def test_a_lead_may_live_unless_it_or_its_engine_has_said_that_it_is_over(
    state: State, attempt: int, lead: Poll, expected: bool
):
    assert is_gone_for_sure(state, attempt, PLACED, lead) is expected


@pytest.mark.parametrize(
    ("gone", "cause"),
    [
        (Lost("preempted", Gone.TAKEN), Cause.PREEMPTED),
        (Lost("down"), Cause.NODE_LOST),
        (Exited(None, "forgotten", Gone.ENGINE), Cause.ENGINE_GONE),
        (Exited(1), Cause.DEFECT),
    ],
)
def test_a_group_that_is_lost_again_and_again_has_a_cause_and_an_end(gone: Poll, cause: Cause):
    often = (MOST_OF_INFRASTRUCTURE + 1) * (Death(cause=Cause.NODE_LOST),)
    action = decide(TRAINING, PLACED, {"algo-1": gone}, NOW, often)
    assert isinstance(action, End)
    assert action.death == Death(cause=cause, host="algo-1")


def test_an_actor_that_its_engine_kills_for_lack_of_memory_has_that_cause():
    often = (MOST_OF_INFRASTRUCTURE + 1) * (Death(cause=Cause.NODE_LOST),)
    killed = Exited(None, "low on memory", Gone.MEMORY)
    action = decide(TRAINING, PLACED, {"algo-1": killed}, NOW, often)
    assert isinstance(action, End)
    assert action.death == Death(cause=Cause.OUT_OF_MEMORY, host="algo-1", memory="engine")


@pytest.mark.parametrize("was_started", [False, True])
def test_a_job_of_a_placement_of_a_later_version_is_left_alone(
    jobs: Jobs, home: Home, was_started: bool
):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    folder = home.job("job-1")
    until(lambda: is_training(jobs, "job-1"))
    placed = Placed.read(folder)
    assert placed is not None
    started = placed.started if was_started else ()
    kill_supervisor(folder)
    folder.host("algo-1", 1).supervisor.unlink()
    replace(placed, placement="quantum", started=started).write(folder)
    before = folder.journal.read_bytes()
    jobs.reconcile("job-1")
    assert folder.journal.read_bytes() == before
    assert num_starts(folder) == 1
