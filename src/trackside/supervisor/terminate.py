"""Ends a script as the contract says: SIGTERM, the grace, then SIGKILL."""

import signal

from trackside.supervisor.sandbox import Sandbox, SandboxPlan


class Ending:
    """Times are monotonic."""

    def __init__(self, sandbox: Sandbox, plan: SandboxPlan, grace_seconds: float) -> None:
        self._sandbox = sandbox
        self._plan = plan
        self._grace_seconds = grace_seconds
        self._asked_at: float | None = None
        self._is_killed = False

    @property
    def was_asked(self) -> bool:
        return self._asked_at is not None

    def ask(self, now: float) -> None:
        """Again: nothing."""
        if self._asked_at is None:
            self._asked_at = now
            self._sandbox.signal(self._plan, signal.SIGTERM)

    def tick(self, now: float) -> None:
        if self._asked_at is None or self._is_killed:
            return
        if now - self._asked_at >= self._grace_seconds:
            self._is_killed = True
            self._sandbox.signal(self._plan, signal.SIGKILL)
