"""The notice of an engine that takes a machine back: a signal, and a file where there is one."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackside.coordination.coordination import Why
from trackside.supervisor.engine_notice import EngineNotice


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_it_is_a_signal_and_near_the_end_of_its_time_the_job_ends():
    for ends_at, why in ((0.0, Why.ENGINE_TAKES_BACK), (time.time() + 60, Why.ENGINE_TIME_LIMIT)):
        notice = EngineNotice(ends_at)
        assert notice.why is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert notice.why is why
        assert notice.host == ""


def test_a_supervisor_that_is_started_after_the_signal_finds_it_in_the_file(tmp_path: Path):
    file = tmp_path / "notice.json"
    assert EngineNotice(0.0, str(file)).why is None
    file.write_text('{"host": "algo-2"}')
    notice = EngineNotice(0.0, str(file))
    assert notice.why is Why.ENGINE_TAKES_BACK
    assert notice.host == "algo-2"


def test_a_file_that_is_damaged_is_a_notice_all_the_same(tmp_path: Path):
    file = tmp_path / "notice.json"
    file.write_text("{")
    notice = EngineNotice(0.0, str(file))
    assert notice.why is Why.ENGINE_TAKES_BACK
    assert notice.host == ""
