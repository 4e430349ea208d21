"""Tests for `trackside.system.worker`, with real threads."""

import logging
import threading
from collections.abc import Callable

import pytest

from tests.wait import until
from trackside.system.worker import Pause, Worker

SOON = (0.001, 0.002)


class Calls:
    """Counts calls, and raises the errors it was given first."""

    def __init__(self, *errors: BaseException) -> None:
        self.num = 0
        self.threads: set[str] = set()
        self._errors = list(errors)

    def __call__(self) -> None:
        self.num += 1
        self.threads.add(threading.current_thread().name)
        if self._errors:
            raise self._errors.pop(0)


def test_it_calls_at_an_interval_in_a_thread_of_its_name() -> None:
    calls = Calls()
    with Worker("of-test", calls, interval=0.001):
        until(lambda: calls.num > 2)
    num = calls.num
    assert calls.threads == {"of-test"}
    assert "of-test" not in {thread.name for thread in threading.enumerate()}
    assert calls.num == num


def test_without_an_interval_it_waits_until_it_is_woken() -> None:
    calls = Calls()
    with Worker("of-test", calls, interval=None) as worker:
        until(lambda: calls.num == 1)
        worker.wake()
        until(lambda: calls.num == 2)
        assert worker.is_alive


def test_a_call_may_say_when_the_next_is_due() -> None:
    num = 0

    def tick() -> Pause | None:
        nonlocal num
        num += 1
        return Pause(0.001, least=0.001) if num < 3 else None

    with Worker("of-test", tick, interval=None):
        until(lambda: num == 3)


def test_a_wake_up_does_not_cut_the_least_pause_short() -> None:
    calls = Calls()
    pauses: list[Pause] = [Pause(3600.0, least=3600.0)]

    def tick() -> Pause:
        calls()
        return pauses[0]

    worker = Worker("of-test", tick, interval=None)
    worker.start()
    until(lambda: calls.num == 1)
    worker.wake()
    assert worker.close(60)  # only the end does
    assert calls.num == 1


def test_errors_are_retried_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls(*[OSError("store is away")] * 3)
    with (
        caplog.at_level(logging.WARNING),
        Worker("of-test", calls, interval=0.001, retry_seconds=SOON, problem="not sent yet"),
    ):
        until(lambda: calls.num > 5)
    assert [record.getMessage() for record in caplog.records] == ["not sent yet: store is away"]
    assert not caplog.records[0].exc_info


def test_an_error_after_a_success_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    num = 0

    def every_other_time() -> None:
        nonlocal num
        num += 1
        if num % 2:
            raise ValueError(num)

    with (
        caplog.at_level(logging.WARNING),
        Worker("of-test", every_other_time, interval=0.001, retry_seconds=SOON),
    ):
        until(lambda: len(caplog.records) >= 2)
    assert caplog.records[0].exc_info  # an error that is no expected one comes with its trace


def test_a_back_off_does_not_delay_the_end() -> None:
    calls = Calls(*[OSError("away")] * 9)
    worker = Worker("of-test", calls, interval=0.001, retry_seconds=(3600.0, 3600.0))
    worker.start()
    until(lambda: calls.num)
    assert worker.close(60)
    assert calls.num == 1


def test_what_is_left_is_done_at_the_end_and_retried_while_there_is_time() -> None:
    at_end = Calls(OSError("away"), OSError("away"))
    worker = Worker("of-test", Calls(), interval=None, at_end=at_end, retry_seconds=SOON)
    worker.start()
    assert worker.close(60, retry_for=60)
    assert at_end.num == 3


def test_the_end_raises_what_is_still_wrong() -> None:
    at_end = Calls(OSError("away"))
    worker = Worker("of-test", Calls(), interval=None, at_end=at_end)
    worker.start()
    with pytest.raises(OSError, match="away"):
        worker.close(60)
    assert worker.close()  # said once


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_what_is_no_plain_error_ends_the_thread_and_is_raised(error: BaseException) -> None:
    worker = Worker("of-test", Calls(error), interval=0.001)
    worker.start()
    with pytest.raises(type(error)):
        worker.join(60)


def blocked_by(event: threading.Event) -> Callable[[], None]:
    def wait() -> None:
        event.wait()

    return wait


def test_one_that_is_busy_is_left_after_the_timeout(caplog: pytest.LogCaptureFixture) -> None:
    free = threading.Event()
    worker = Worker("of-test", blocked_by(free), interval=None)
    worker.start()
    assert not worker.close(0.01)
    assert worker.is_closing
    assert "of-test is still busy after 0.01 s" in caplog.text
    free.set()
    assert worker.close(60)


def test_one_that_was_never_started_can_be_closed() -> None:
    assert Worker("of-test", Calls(), interval=None).close()
