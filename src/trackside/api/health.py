"""Whether the server can do its work now, in words: /health. What is looked at, `services` says.

A look that hangs is said to hang; it holds up nobody, and no second one is begun beside it.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping

from trackside.api.call import Reply

Look = Callable[[], str]
"""What is wrong, or nothing. It may block and raise."""

LOOK_SECONDS = 3.0
"""After which a look is said to hang."""
FRESH_SECONDS = 2.0
"""How long an answer holds: probes may come often, and from many."""


class Health:
    """Not thread-safe: its methods belong to the event loop."""

    def __init__(self, looks: Mapping[str, Look], is_draining: Callable[[], bool]) -> None:
        self._looks = looks
        self._is_draining = is_draining
        self._running: dict[str, tuple[float, asyncio.Future[str]]] = {}
        self._told: dict[str, str] = {}
        self._told_at = -FRESH_SECONDS

    async def ready(self) -> Reply:
        """503 when requests should go elsewhere, with the reasons."""
        if self._is_draining():
            return _reply(503, {"status": "draining"})
        if time.monotonic() - self._told_at >= FRESH_SECONDS:
            found = await asyncio.gather(*map(self._looked, self._looks))
            self._told = {name: words for name, words in found if words}
            self._told_at = time.monotonic()
        if self._told:
            return _reply(503, {"status": "degraded", "problems": self._told})
        return _reply(200, {"status": "ok"})

    async def alive(self) -> Reply:
        """Whoever hears this need not be started anew, whatever else is wrong."""
        return _reply(200, {"status": "ok"})

    async def _looked(self, name: str) -> tuple[str, str]:
        began, look = self._running.get(name) or self._begin(name)
        done, _ = await asyncio.wait([look], timeout=LOOK_SECONDS)
        if not done:
            seconds = time.monotonic() - began
            return name, f"has not answered for {seconds:.0f} s"
        self._running.pop(name, None)
        return name, look.result()

    def _begin(self, name: str) -> tuple[float, "asyncio.Future[str]"]:
        look = asyncio.ensure_future(asyncio.to_thread(_words, self._looks[name]))
        self._running[name] = (time.monotonic(), look)
        return self._running[name]


def _words(look: Look) -> str:
    try:
        return look()
    except Exception as error:  # noqa: BLE001 whatever it is, it is the answer
        return str(error) or repr(error)


def _reply(status: int, told: Mapping[str, object]) -> Reply:
    headers = {"content-type": "application/json", "cache-control": "no-store"}
    return Reply(status, json.dumps(told).encode(), headers)
