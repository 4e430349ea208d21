"""The child process that an engine's library is imported in."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.wait import until
from trackside.placement.engine_child import EngineAway, EngineChild, EngineError
from trackside.system import processes

SECONDS = 60.0
PARENT = """
import os, sys
from trackside.placement.engine_child import EngineChild
child = EngineChild("tests.placement.toy_engine", [], dict(os.environ))
print(child.call("echo", 60.0, text="")["pid"], flush=True)
sys.stdin.read()
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.fixture
def child() -> Iterator[EngineChild]:
    found = EngineChild("tests.placement.toy_engine", [], environment())
    yield found
    found.close()


def test_it_answers_whatever_its_library_prints(child: EngineChild):
    first = child.call("echo", SECONDS, text="a\nb")
    assert first["text"] == "a\nb"
    assert child.call("echo", SECONDS, text="c")["pid"] == first["pid"] != os.getpid()


def test_it_may_be_started_before_it_is_asked(child: EngineChild):
    child.begin()
    assert child._process is not None
    assert child.call("echo", SECONDS, text="")["pid"] == child._process.pid


def test_a_refusal_is_told_from_an_engine_that_is_away(child: EngineChild):
    with pytest.raises(EngineError, match="the reason"):
        child.call("fail", SECONDS, kind="refused")
    with pytest.raises(EngineAway, match="the reason"):
        child.call("fail", SECONDS, kind="away")
    with pytest.raises(EngineAway, match="KeyError: 'the reason'"):
        child.call("fail", SECONDS, kind="other")


def test_a_library_that_cannot_connect_again_has_another_process(child: EngineChild):
    first = child.call("echo", SECONDS, text="")["pid"]
    with pytest.raises(EngineAway, match="the reason"):
        child.call("fail", SECONDS, kind="away")
    assert child.call("echo", SECONDS, text="")["pid"] == first
    with pytest.raises(EngineAway, match="the reason"):
        child.call("fail", SECONDS, kind="lost")
    assert child.call("echo", SECONDS, text="")["pid"] != first


def test_a_library_that_ends_its_process_ends_the_child_alone(child: EngineChild):
    with pytest.raises(EngineAway, match="fatal: the head is gone"):
        child.call("die", SECONDS)
    assert child.call("echo", SECONDS, text="again")["text"] == "again"


def test_one_that_does_not_answer_in_time_is_away_and_replaced(child: EngineChild):
    first = child.call("echo", SECONDS, text="")["pid"]
    identity = processes.identify(first)
    with pytest.raises(EngineAway, match="did not answer in time"):
        child.call("hang", 0.1)
    assert identity is not None
    assert not processes.is_alive(identity)
    assert child.call("echo", SECONDS, text="")["pid"] != first


def test_it_ends_with_its_parent_however_that_ends():
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    assert parent.stdout is not None
    identity = processes.identify(int(parent.stdout.readline()))
    assert identity is not None
    parent.kill()
    parent.communicate()
    until(lambda: not processes.is_alive(identity))
