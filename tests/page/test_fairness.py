"""Slow requests of one person, and of people who have gone, cost the others nothing."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.jobs.conftest import make_spec
from tests.page.conftest import Browser, Team
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.page import setup_routes
from trackside.records.rights import Rights
from trackside.views.job_setup.setup import Setup, setup_of


class Gates:
    """Holds requests for the setup of the job `slow` until they are let go."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.began: list[str] = []

    def setup_of(self, jobs: Jobs, name: str) -> Setup:
        self.began.append(name)
        if name == "slow":
            assert self.open.wait(60)
        return setup_of(jobs, name)


@pytest.fixture
def gates(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gates]:
    for name in ("slow", "other"):
        jobs.submit(make_spec(name))
        jobs.wait(name)
    gates = Gates()
    monkeypatch.setattr(setup_routes, "setup_of", gates.setup_of)
    yield gates
    gates.open.set()


@contextmanager
def asked(browser: Browser, path: str) -> Iterator[http.client.HTTPConnection]:
    """A request that nobody waits for yet."""
    connection = http.client.HTTPConnection("127.0.0.1", browser.port, timeout=60)
    connection.request("GET", path, headers={**browser.headers, "cookie": browser.cookie})
    yield connection
    connection.close()


def test_one_person_s_slow_requests_do_not_delay_others(team: Team, gates: Gates):
    ann, bob = team.logged_in("ann", Rights.READ), team.logged_in("bob", Rights.READ)
    with ExitStack() as waiting:
        slow = [waiting.enter_context(asked(ann, "/ui/api/jobs/slow/setup")) for _ in range(10)]
        until(lambda: len(gates.began) == 2)
        assert bob.get("/ui/api/jobs/other/setup").status == 200
        assert ann.get("/ui/api/jobs").status == 200
        assert gates.began.count("slow") == 2
        gates.open.set()
        assert [each.getresponse().status for each in slow] == [200] * 10


def test_what_nobody_waits_for_is_not_begun(team: Team, gates: Gates):
    ann = team.logged_in("ann", Rights.READ)
    with ExitStack() as waiting:
        for _ in range(10):
            waiting.enter_context(asked(ann, "/ui/api/jobs/slow/setup"))
        until(lambda: len(gates.began) == 2)
    for _ in range(3):  # the server has seen them go
        assert ann.get("/ui/api/jobs").status == 200
    gates.open.set()
    assert ann.get("/ui/api/jobs/other/setup").status == 200
    assert gates.began == ["slow", "slow", "other"]
