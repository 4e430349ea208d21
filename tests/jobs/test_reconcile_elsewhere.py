"""A group on other machines: what is done follows from what is known, and only from proof."""

from dataclasses import replace

import pytest

from tests.jobs.conftest import is_training, kill_supervisor, make_spec, num_starts
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.jobs.reconcile_elsewhere import Action, End, Place, decide
from trackside.jobs.revivals import MAX_REVIVALS
from trackside.placement.placement import Exited, Lost, Pending, Poll, Running, Unknown
from trackside.records.layout import Home
from trackside.records.placed import Placed, PlacedHost
from trackside.records.status import FIRST, Secondary, State, Status
from trackside.system.boot_clock import Moment

NOW = Moment("boot", 1000.0)
TRAINING = State(Status.IN_PROGRESS, Secondary.TRAINING)
STOPPING = State(Status.STOPPING, Secondary.STOPPING)
QUEUED = State(Status.IN_PROGRESS, Secondary.PENDING)
COMPLETED = State(Status.COMPLETED, Secondary.COMPLETED)
HOSTS = {"algo-1": PlacedHost(nonce="1"), "algo-2": PlacedHost(nonce="2")}
INTENDED = Placed(hosts=HOSTS, placement="toy")
PLACED = INTENDED.after_start([*HOSTS], {"id": 1})
OFTEN = PLACED.with_host(
    "algo-1", replace(HOSTS["algo-1"], revivals=MAX_REVIVALS, revived=Moment("boot", 900.0))
)
LONG_AGO = PLACED.with_host(
    "algo-1", replace(HOSTS["algo-1"], revivals=MAX_REVIVALS, revived=Moment("boot", 100.0))
)
GIVEN_UP = End(
    Secondary.FAILED,
    "InternalServerError: the supervisor of algo-1 was lost 4 times in a row: preempted",
)


@pytest.mark.parametrize(
    ("state", "placed", "lead", "other", "expected"),
    [
        (FIRST, None, None, None, Place()),
        (FIRST, INTENDED, None, None, Place()),
        (STOPPING, INTENDED, None, None, End(Secondary.STOPPED)),
        (QUEUED, None, None, None, None),
        (COMPLETED, PLACED, Exited(0), Exited(0), None),
        (FIRST, PLACED, Pending("full"), Pending("full"), None),
        (TRAINING, PLACED, Running(), Running(), None),
        (TRAINING, PLACED, Running(), Lost("preempted"), None),
        (TRAINING, PLACED, Unknown("no answer"), Lost("preempted"), None),
        (TRAINING, PLACED, None, None, None),
        (TRAINING, PLACED, Lost("preempted"), Running(), Place()),
        (TRAINING, PLACED, Exited(None), Unknown("no answer"), Place()),
        (TRAINING, OFTEN, Lost("preempted"), Running(), GIVEN_UP),
        (TRAINING, OFTEN, Unknown("no answer"), Running(), None),
        (TRAINING, LONG_AGO, Lost("preempted"), Running(), Place()),
        (STOPPING, PLACED, Exited(None), Running(), End(Secondary.STOPPED)),
        (STOPPING, PLACED, Running(), Running(), None),
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
