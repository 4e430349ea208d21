"""The moves of a job: what may follow what, and that a final status stays."""

import pytest

from trackside.errors import MoveRefused
from trackside.records.status import FIRST, MOVES, Secondary, Status, can_follow


def walk(*moves: Secondary):
    state = FIRST
    for move in moves:
        state = state.after(move)
    return state


def test_a_job_runs_through_the_contract_s_statuses():
    state = walk(Secondary.DOWNLOADING, Secondary.TRAINING, Secondary.UPLOADING)
    assert state.status is Status.IN_PROGRESS
    assert state.after(Secondary.COMPLETED).status is Status.COMPLETED


def test_a_stopped_job_still_uploads_and_stays_stopping_while_it_does():
    state = walk(Secondary.DOWNLOADING, Secondary.TRAINING, Secondary.STOPPING)
    uploading = state.after(Secondary.UPLOADING)
    assert (uploading.status, uploading.secondary) == (Status.STOPPING, Secondary.UPLOADING)
    assert uploading.after(Secondary.STOPPED).status is Status.STOPPED
    with pytest.raises(MoveRefused, match="cannot become Completed"):
        uploading.after(Secondary.COMPLETED)
    with pytest.raises(MoveRefused, match="cannot become Restarting"):
        uploading.after(Secondary.RESTARTING)


@pytest.mark.parametrize("final", [s for s in Secondary if s.is_final])
def test_nothing_follows_a_final_status(final: Secondary):
    state = walk(Secondary.DOWNLOADING, Secondary.TRAINING, Secondary.UPLOADING, final)
    assert state.is_final
    assert not any(can_follow(state, move) for move in Secondary)


def test_every_status_that_is_not_final_has_a_way_to_a_final_one():
    for start in Secondary:
        seen, front = {start}, {start}
        while front:
            front = {after for move in front for after in MOVES[move]} - seen
            seen |= front
        assert start.is_final or any(s.is_final for s in seen), start


def test_a_training_job_can_be_restarted():
    state = walk(
        Secondary.DOWNLOADING, Secondary.TRAINING, Secondary.RESTARTING, Secondary.STARTING
    )
    assert state == FIRST
