"""The table of steps: against a plain model, in any order of arrival, and what it holds."""

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trackside.capture.modes import ModeKeys
from trackside.capture.reading.step_table import SavedStep, StepState, StepTable

MODES = (ModeKeys.TRAIN, ModeKeys.EVAL)
additions = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from(["worker_0", "worker_1"]), st.booleans()),
    max_size=60,
)


def mode_of(step: int) -> tuple[ModeKeys, int]:
    return MODES[step % 3 == 2], step // 2


def filled(added: list[tuple[int, str, bool]], num_workers: int = 1) -> StepTable:
    table = StepTable()
    table.num_workers = num_workers
    for step, worker, is_aside in added:
        table.add(step, *mode_of(step), float(step), worker, is_aside=is_aside)
    table.settle()
    return table


@given(additions)
def test_every_step_is_found_however_it_arrived(added):
    table = filled(added)
    steps = sorted({step for step, *_ in added})
    assert table.columns(ModeKeys.GLOBAL, with_incomplete=True)[0].tolist() == steps
    assert len(table) == len(steps)
    for step in range(32):
        assert (step in table) == (step in steps)
        assert table.get(step) == (expected(step, added) if step in steps else None)


def expected(step: int, added: list[tuple[int, str, bool]]) -> SavedStep:
    of_step = [(worker, is_aside) for each, worker, is_aside in added if each == step]
    workers = frozenset(worker for worker, _ in of_step)
    return SavedStep(*mode_of(step), float(step), workers, all(aside for _, aside in of_step))


@given(additions)
def test_modes_of_many_steps_are_those_of_each(added):
    table = filled(added)
    each = [table.get(step) for step in range(32)]
    modes = [ModeKeys.GLOBAL if saved is None else saved.mode for saved in each]
    found = table.modes_at(np.arange(32))
    assert found.tolist() == [mode.value for mode in modes]
    table.add(99, ModeKeys.TRAIN, 99, 0.0, "worker_0")  # the columns are still free to grow


@given(additions)
def test_a_mode_has_its_own_numbers_and_the_later_step_of_two(added):
    table = filled(added)
    for mode in MODES:
        arrived = dict.fromkeys(step for step, *_ in added if mode_of(step)[0] is mode)
        model = {mode_of(step)[1]: step for step in arrived}
        assert table.columns(mode, with_incomplete=True)[0].tolist() == sorted(model)
        own, whole = table.columns(mode)
        assert dict(zip(own, whole, strict=True)) == model
        for number in range(20):
            assert table.global_step(mode, number) == model.get(number)


@given(additions)
def test_a_step_is_complete_when_all_workers_have_it_or_a_later_one_is(added):
    table = filled(added, num_workers=2)
    workers = {step: {w for s, w, _ in added if s == step} for step, *_ in added}
    last = max((step for step, by in workers.items() if len(by) == 2), default=-1)
    complete = [step for step in sorted(workers) if step <= last]
    assert table.last_complete_step == last
    assert table.complete(ModeKeys.GLOBAL) == complete
    saved = {step for step, _, is_aside in added if not is_aside}
    for step in workers:
        state = StepState.AVAILABLE if step in saved else StepState.UNAVAILABLE
        if step > last:
            state = StepState.NOT_YET_AVAILABLE
        assert table.state(step, ModeKeys.GLOBAL) is state


@given(additions)
def test_steps_with_nothing_but_vitals_are_left_out_on_request(added):
    table = filled(added)
    kept = sorted({step for step, _, is_aside in added if not is_aside})
    assert table.without_aside(ModeKeys.GLOBAL) == kept


def test_ten_thousand_steps_take_less_than_half_a_megabyte():
    tracemalloc.start()
    try:
        table = filled([(step, "worker_0", False) for step in range(100)])
        before = tracemalloc.get_traced_memory()[0]
        for step in range(100, 10_100):
            table.add(step, ModeKeys.TRAIN, step, float(step), "worker_0")
        assert tracemalloc.get_traced_memory()[0] - before < 500_000
    finally:
        tracemalloc.stop()


def test_steps_by_their_global_number_as_rules_of_aws_s_examples_read_them():
    table = StepTable()
    table.add(0, ModeKeys.TRAIN, 0, 1.0, "worker_0")
    table.add(7, ModeKeys.EVAL, 3, 1.0, "worker_0")
    view = table.by_global_step
    assert view[7] == (ModeKeys.EVAL, 3)
    assert dict(view) == {0: (ModeKeys.TRAIN, 0), 7: (ModeKeys.EVAL, 3)}
    assert 3 not in view
    table.add(8, ModeKeys.EVAL, 4, 1.0, "worker_0")
    assert len(view) == 3
