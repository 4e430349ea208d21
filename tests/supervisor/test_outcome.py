"""How a job ends, as a table: no processes, no files."""

import pytest

from trackside.coordination.coordination import EndOrder, Why
from trackside.records.hosts import HostRecord, Phase
from trackside.records.status import FIRST, Secondary
from trackside.supervisor.outcome import (
    REASON_LENGTH,
    Again,
    End,
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
BROKEN_LATER = ended(exit_code=1, failure="AlgorithmError: peer gone, exit code: 1", ended_at=4.5)
LOST = ended(lost="the machine was restarted", ended_at=3.0)
KILLED = ended(
    exit_code=-9, failure="AlgorithmError: , exit code: -9", lost="ended by SIGKILL", ended_at=3.0
)


@pytest.mark.parametrize(
    ("state", "records", "order", "left", "outcome"),
    [
        (TRAINING, {"algo-1": GOOD}, None, 0, End(Secondary.COMPLETED)),
        (STOPPING, {"algo-1": ended(exit_code=-15)}, None, 0, End(Secondary.STOPPED)),
        (STOPPING, {"algo-1": LOST}, None, 3, End(Secondary.STOPPED)),
        (
            TRAINING,
            {"algo-1": ended(exit_code=-15)},
            EndOrder(Why.MAX_RUNTIME, "algo-1", 1.0),
            2,
            End(Secondary.MAX_RUNTIME_EXCEEDED),
        ),
        (
            TRAINING,
            {"algo-1": BROKEN},
            None,
            5,
            End(Secondary.FAILED, "AlgorithmError: boom, exit code: 3", keeps_model=False),
        ),
        (
            TRAINING,
            {"algo-1": BROKEN_LATER, "algo-2": BROKEN},
            EndOrder(Why.HOST_FAILED, "algo-2", 4.1),
            0,
            End(Secondary.FAILED, "AlgorithmError: algo-2: boom, exit code: 3", keeps_model=False),
        ),
        (TRAINING, {"algo-1": LOST}, None, 1, Again("algo-1: the machine was restarted")),
        (TRAINING, {"algo-1": KILLED}, None, 1, Again("algo-1: ended by SIGKILL")),
        (
            TRAINING,
            {"algo-1": KILLED},
            None,
            0,
            End(Secondary.FAILED, "AlgorithmError: , exit code: -9", keeps_model=False),
        ),
        (
            TRAINING,
            {"algo-1": LOST},
            None,
            0,
            End(
                Secondary.FAILED,
                "InternalServerError: the machine was restarted",
                keeps_model=False,
            ),
        ),
    ],
)
def test_the_end_follows_from_the_records(state, records, order, left, outcome):
    assert decide(state, records, order, attempts_left=left) == outcome


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
