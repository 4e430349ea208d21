"""The queue of a server's machine, for our own clients: AWS has no such operation.

Every key may see who waits and why; which key submitted a job is told to nobody.
"""

from dataclasses import asdict, dataclass
from typing import Any

from trackside.api.json_service import Answer, Ask
from trackside.api.validation import parsed
from trackside.jobs.jobs import Jobs
from trackside.jobs.queue import LimitOf
from trackside.records.members import member


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    with_own: bool = member("Trackside", bool, default=False)
    """As in the other operations; there is nothing else to ask for."""


class QueueLook:
    def __init__(self, jobs: Jobs, limit_of: LimitOf) -> None:
        self._jobs = jobs
        self._limit_of = limit_of

    def look(self, ask: Ask) -> Answer:
        parsed(Asking, ask.given)
        told: dict[str, Any] = asdict(self._jobs.queue(self._limit_of))
        entries = [*told["running"], *(waiter["entry"] for waiter in told["waiting"])]
        for entry in entries:
            del entry["key"]
        return told
