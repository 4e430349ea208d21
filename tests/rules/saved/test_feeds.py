"""What rules look at comes as soon as it is there, and not oftener than it may cost."""

from pathlib import Path

import pytest

from tests.rules.recording import Recording
from tests.wait import until
from trackside.capture.writing.writer import WriterLimits
from trackside.rules.saved import feeds
from trackside.storage.locate import locate


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path / "trial", limits=WriterLimits(age_seconds=0.01))


@pytest.fixture
def feed(recording: Recording, tmp_path: Path) -> feeds.Feed:
    return feeds.tensors(locate(str(recording.folder), home=tmp_path), tmp_path)


def test_each_check_has_what_is_new_since_the_last(feed: feeds.Feed, recording: Recording):
    recording.step(0, {"a": [1.0]})
    until(lambda: feed.advance() and feed.evidence.steps == (0,))
    assert not feed.advance()
    recording.step(1, {"a": [1.0]})
    until(lambda: feed.advance() and feed.evidence.steps == (1,))


def test_after_a_check_that_cost_much_it_rests_unless_it_is_the_last(
    feed: feeds.Feed, recording: Recording
):
    recording.step(0, {"a": [1.0]})
    until(lambda: feed.advance() and feed.evidence.steps == (0,))
    feed.rest_after(10.0, feeds.Pace(0.001, longest_rest_seconds=600.0))
    recording.step(1, {"a": [1.0]})
    recording.end()
    assert not feed.advance()
    assert feed.advance(last=True)
    assert feed.evidence.steps == (1,)


def test_the_first_checks_need_no_rest(feed: feeds.Feed, recording: Recording):
    hardly_ever = feeds.Pace(1e-9, longest_rest_seconds=600.0)
    recording.step(0, {"a": [1.0]})
    until(lambda: feed.advance() and feed.evidence.steps == (0,))
    feed.rest_after(feeds.ALLOWANCE_SECONDS / 2, hardly_ever)
    recording.step(1, {"a": [1.0]})
    until(lambda: feed.advance() and feed.evidence.steps == (1,))
    feed.rest_after(feeds.ALLOWANCE_SECONDS, hardly_ever)
    recording.step(2, {"a": [1.0]})
    recording.end()
    assert not feed.advance()


def test_it_never_rests_for_longer_than_a_person_would_wait(feed: feeds.Feed, recording: Recording):
    recording.step(0, {"a": [1.0]})
    until(lambda: feed.advance() and feed.evidence.steps == (0,))
    for _ in range(100):
        feed.rest_after(10.0, feeds.EAGER)
    recording.step(1, {"a": [1.0]})
    until(lambda: feed.advance() and feed.evidence.steps == (1,))


def test_a_script_of_another_framework_is_named(feed: feeds.Feed, recording: Recording):
    assert feed.nothing == feeds.NO_TENSORS
    recording.folder.mkdir(exist_ok=True)
    for damaged in ("", "[]", '{"framework": 0'):
        (recording.folder / "not-watched.json").write_text(damaged)
        assert feed.nothing == feeds.NO_TENSORS
    (recording.folder / "not-watched.json").write_text('{"framework": "TensorFlow"}')
    assert feed.nothing.startswith("ClientError: Not watched: TensorFlow.")
