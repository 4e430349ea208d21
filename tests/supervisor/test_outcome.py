"""How a job ends, as a table: no processes, no files."""

import pytest

from trackside.coordination.coordination import EndOrder, Why
from trackside.records.death import MOST_OF_INFRASTRUCTURE, Cause, Death
from trackside.records.hosts import HostRecord, Phase
from trackside.records.status import FIRST, Secondary
from trackside.supervisor.outcome import (
    REASON_LENGTH,
    Again,
    End,
    Interrupted,
    algorithm_error,
    decide,
    failed_peer,
    first_wrong,
)
from trackside.system.boot_clock import Moment

TRAINING = FIRST.after(Secondary.DOWNLOADING).after(Secondary.TRAINING)
STOPPING = TRAINING.after(Secondary.STOPPING)


def ended(**details) -> HostRecord:
    return HostRecord(phase=Phase.ENDED, **details)


GOOD = ended(exit_code=0, ended_at=5.0)
BROKEN = ended(exit_code=3, failure="AlgorithmError: boom, exit code: 3", ended_at=4.0)
OF_CODE = Death(cause=Cause.CODE, host="algo-1")
OF_SIGNAL = Death(cause=Cause.SIGNAL, host="algo-1")
OF_NODE = Death(cause=Cause.NODE_LOST, host="algo-1")
OF_NOTICE = Death(cause=Cause.PREEMPTED, host="algo-1")
IN_TIME = Death(cause=Cause.TIME_LIMIT)
NOTICE = EndOrder(Why.ENGINE_TAKES_BACK, "algo-1", 1.0)
BROKEN_LATER = ended(exit_code=1, failure="AlgorithmError: peer gone, exit code: 1", ended_at=4.5)
LOST = ended(lost="the machine was restarted", cause="node_lost", ended_at=3.0)
KILLED = ended(
    exit_code=-9, failure="AlgorithmError: , exit code: -9", lost="ended by SIGKILL", ended_at=3.0
)


@pytest.mark.parametrize(
    ("state", "records", "order", "earlier", "most", "outcome"),
    [
        (TRAINING, {"algo-1": GOOD}, None, (), 1, End(Secondary.COMPLETED)),
        (STOPPING, {"algo-1": ended(exit_code=-15)}, None, (), 1, End(Secondary.STOPPED)),
        (STOPPING, {"algo-1": LOST}, None, (), 4, End(Secondary.STOPPED)),
        (
            TRAINING,
            {"algo-1": ended(exit_code=-15)},
            EndOrder(Why.MAX_RUNTIME, "algo-1", 1.0),
            (),
            3,
            End(Secondary.MAX_RUNTIME_EXCEEDED, death=IN_TIME),
        ),
        (
            TRAINING,
            {"algo-1": BROKEN},
            None,
            (),
            6,
            End(
                Secondary.FAILED,
                "AlgorithmError: boom, exit code: 3",
                keeps_model=False,
                death=OF_CODE,
            ),
        ),
        (
            TRAINING,
            {"algo-1": BROKEN_LATER, "algo-2": BROKEN},
            EndOrder(Why.HOST_FAILED, "algo-2", 4.1),
            (),
            1,
            End(
                Secondary.FAILED,
                "AlgorithmError: algo-2: boom, exit code: 3",
                keeps_model=False,
                death=Death(cause=Cause.CODE, host="algo-2"),
            ),
        ),
        (
            TRAINING,
            {"algo-1": LOST},
            None,
            (),
            2,
            Again("algo-1: the machine was restarted", OF_NODE),
        ),
        # Lost machines do not use up the retries of a job, and other ends do.
        (
            TRAINING,
            {"algo-1": LOST},
            None,
            (OF_SIGNAL, *20 * (OF_NODE,)),
            2,
            Again("algo-1: the machine was restarted", OF_NODE),
        ),
        (
            TRAINING,
            {"algo-1": KILLED},
            None,
            30 * (OF_NODE, OF_NOTICE),
            2,
            Again("algo-1: ended by SIGKILL", OF_SIGNAL),
        ),
        (
            TRAINING,
            {"algo-1": KILLED},
            None,
            (OF_NODE, OF_SIGNAL),
            2,
            End(
                Secondary.FAILED,
                "AlgorithmError: , exit code: -9",
                keeps_model=False,
                death=OF_SIGNAL,
            ),
        ),
        # A notice needs no retries, but there is an end to it.
        (
            TRAINING,
            {"algo-1": ended(exit_code=-15)},
            NOTICE,
            (),
            1,
            Interrupted("The engine takes back the machine of algo-1", OF_NOTICE),
        ),
        (
            TRAINING,
            {"algo-1": ended(exit_code=-15)},
            NOTICE,
            MOST_OF_INFRASTRUCTURE * (OF_NOTICE,),
            1,
            End(
                Secondary.FAILED,
                "InternalServerError: the engine took back the machine of algo-1, and 100 "
                "attempts have ended before; no other one is made",
                keeps_model=False,
                death=OF_NOTICE,
            ),
        ),
        (
            TRAINING,
            {"algo-1": KILLED},
            None,
            (),
            1,
            End(
                Secondary.FAILED,
                "AlgorithmError: , exit code: -9",
                keeps_model=False,
                death=OF_SIGNAL,
            ),
        ),
        (
            TRAINING,
            {"algo-1": LOST},
            None,
            (),
            1,
            End(
                Secondary.FAILED,
                "InternalServerError: the machine was restarted",
                keeps_model=False,
                death=OF_NODE,
            ),
        ),
    ],
)
def test_the_end_follows_from_the_records(state, records, order, earlier, most, outcome):
    decided = decide(state, records, order, earlier=earlier, max_attempts=most)
    assert decided == outcome


def at(boot: str, seconds: float, **details) -> HostRecord:
    return ended(failure="AlgorithmError: x", ended=Moment(boot, seconds), **details)


def test_on_one_machine_the_host_failed_first_that_ended_first():
    """Whatever the wall clock says, and whichever the lead saw first."""
    records = {"algo-1": at("b", 7.0, ended_at=1.0), "algo-2": at("b", 6.0, ended_at=9.0)}
    found = first_wrong(records, EndOrder(Why.HOST_FAILED, "algo-1", 1.0))
    assert found == ("algo-2", records["algo-2"])
    assert failed_peer(records) == "algo-2"


@pytest.mark.parametrize("seen", ["algo-1", "algo-2", "algo-3"])
def test_of_several_machines_the_host_failed_first_that_the_lead_saw_first(seen: str):
    """Their clocks differ, and nobody knows by how much."""
    records = {
        "algo-1": at("b", 100.0, ended_at=50.0),
        "algo-2": at("c", 1.0, ended_at=10.0),
        "algo-3": at("c", 2.0, ended_at=20.0),
    }
    found = first_wrong(records, EndOrder(Why.HOST_FAILED, seen, 1.0))
    assert found == (seen, records[seen])


def test_a_host_that_vanished_is_named_though_it_left_no_record():
    order = EndOrder(Why.HOST_LOST, "algo-2", 1.0)
    found = first_wrong({"algo-1": ended(exit_code=-15), "algo-2": HostRecord()}, order)
    assert found is not None
    assert found[0] == "algo-2"


def test_a_long_failure_text_gives_way_but_the_exit_code_stays():
    reason = algorithm_error("x" * 5000, 137)
    assert len(reason) <= REASON_LENGTH
    assert reason.endswith(", exit code: 137")
