"""Whether the server can do its work now: the checks behind /health, and their last results.

A check that hangs is reported as such. It delays no response, and is not started a second time.
"""

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping

from trackside.api.upkeep import Upkeep
from trackside.errors import ObjectNotFound
from trackside.files import disk_space
from trackside.jobs.index import Page
from trackside.jobs.jobs import Jobs
from trackside.storage.locate import locate_object

Check = Callable[[], str]
"""Returns what is wrong, or nothing. It may block and raise."""

CHECK_SECONDS = 3.0
"""After which a check is reported as hanging."""
FRESH_SECONDS = 2.0
"""How long a result is reused: probes may come often, and from many clients."""
UPKEEP_LATE_SECONDS = 60.0
_LEAST_FREE_BYTES = 64 << 20
_PROBE = "trackside-health"
"""An object that need not exist: a store that reports it missing is healthy."""


class Health:
    """Not thread-safe: its methods belong to the event loop."""

    def __init__(self, checks: Mapping[str, Check], is_draining: Callable[[], bool]) -> None:
        self._checks = checks
        self._is_draining = is_draining
        self._running: dict[str, tuple[float, asyncio.Future[str]]] = {}
        self._problems: dict[str, str] = {}
        self._checked_at = -FRESH_SECONDS

    async def report(self) -> Mapping[str, object]:
        """Its `status` is `ok`, or requests should go elsewhere."""
        if self._is_draining():
            return {"status": "draining"}
        if time.monotonic() - self._checked_at >= FRESH_SECONDS:
            results = await asyncio.gather(*map(self._result, self._checks))
            self._problems = {name: problem for name, problem in results if problem}
            self._checked_at = time.monotonic()
        if self._problems:
            return {"status": "degraded", "problems": self._problems}
        return {"status": "ok"}

    async def _result(self, name: str) -> tuple[str, str]:
        started, check = self._running.get(name) or self._start(name)
        done, _ = await asyncio.wait([check], timeout=CHECK_SECONDS)
        if not done:
            seconds = time.monotonic() - started
            return name, f"has not answered for {seconds:.0f} s"
        self._running.pop(name, None)
        return name, check.result()

    def _start(self, name: str) -> tuple[float, "asyncio.Future[str]"]:
        check = asyncio.ensure_future(asyncio.to_thread(_problem, self._checks[name]))
        self._running[name] = (time.monotonic(), check)
        return self._running[name]


def _problem(check: Check) -> str:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 any error is the result
        return str(error) or repr(error)


def checks(jobs: Jobs, upkeep: Upkeep) -> Mapping[str, Check]:
    """What a server needs: its index, its store, its disk, its upkeep."""
    settings = jobs.settings

    def database() -> str:
        jobs.page(Page(limit=1))
        return ""

    def store() -> str:
        probe = locate_object(
            f"{settings.output.rstrip('/')}/{_PROBE}", home=settings.home, hurried=True
        )
        try:
            probe.store.stat(probe.key)
        except ObjectNotFound:
            return ""
        return ""

    def disk() -> str:
        if problem := disk_space.trouble(settings.home):
            return problem
        free = shutil.disk_usage(settings.home).free
        return "" if free >= _LEAST_FREE_BYTES else f"only {free >> 20} MiB are free"

    def upkeep_age() -> str:
        age = upkeep.age_seconds
        return "" if age < UPKEEP_LATE_SECONDS else f"the last round finished {age:.0f} s ago"

    return {"database": database, "store": store, "disk": disk, "upkeep": upkeep_age}
