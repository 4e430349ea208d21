"""The names of a trial's files, for capture and rules. docs/formats.md explains them."""

import re

from trackside.quick_dataclass import dataclass

END_MARKER = "training_job_end.ts"
"""Empty file, smdebug's name: no more data will come."""
CLAIM = "claim.smd"
"""Also smdebug's name: of several processes without a group, the one that writes created it."""
FAILURES = "capture-errors.json"
"""Errors of capture itself; `trackside show` reads it."""
UNWATCHED = "not-watched.json"
"""The framework of the script, if it was not PyTorch and so nothing was saved."""
RECORDER_REPORT = "flight-recorder.json"
"""Why and when the flight recorder was written out, newest last."""
RECORDER_REQUEST = "dump-requested"
"""Created to request that the flight recorder is written out, and removed by it."""
COLLECTIONS = "collections/"
SEGMENTS = "segments/"
ANATOMY = "anatomy/"
RANKS = "ranks/"
"""How long the steps of each process took."""
HANGS = "hangs/"
"""Where a process stands that makes no step for long."""
VITALS = "vitals/"
"""Tensors with this prefix are vitals: saved automatically, listed only on request."""

_SEGMENT = re.compile(r"(\d{13})-(\d{6,})-(\d{12,})\.safetensors")
_WORKER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    """Sorts as text in the order of writing. Numbers are dense within a session, so a gap
    means that a file has not arrived yet."""

    session: int
    """Milliseconds since the epoch when its writer started."""
    number: int
    """From 0, one more for each segment of the session."""
    first_step: int

    def __str__(self) -> str:
        return f"{self.session:013d}-{self.number:06d}-{self.first_step:012d}.safetensors"

    @classmethod
    def parse(cls, name: str) -> "SegmentName | None":
        """None for anything but a segment: a temporary file, or a user's."""
        matched = _SEGMENT.fullmatch(name)
        return None if matched is None else cls(*map(int, matched.groups()))

    def follows(self, other: "SegmentName | None") -> bool:
        """Whether nothing was written between the two."""
        if other is None or other.session != self.session:
            return self.number == 0
        return self.number == other.number + 1


def is_worker_name(name: str) -> bool:
    """Worker names become file names."""
    return _WORKER.fullmatch(name) is not None


def segments_of(worker: str) -> str:
    return f"{SEGMENTS}{worker}/"


def collections_file(worker: str) -> str:
    return f"{COLLECTIONS}{worker}.json"


def rank_times_file(worker: str) -> str:
    return f"{RANKS}{worker}.json"


def hang_file(process: str) -> str:
    return f"{HANGS}{process}.json"


def hang_stacks_file(process: str) -> str:
    """What faulthandler writes if the process's own thread is kept from running."""
    return f"{HANGS}{process}.stacks"


def step_file(process: str) -> str:
    """The last step of a process of a group, as eight bytes."""
    return f"{HANGS}{process}.step"


def fatal_file(process: str) -> str:
    """What faulthandler writes when a signal ends the process."""
    return f"{HANGS}{process}.fatal"


def exit_file(process: str) -> str:
    """What the process's parent has seen of its end."""
    return f"{HANGS}{process}.exit"


def anatomy_file(worker: str) -> str:
    return f"{ANATOMY}{worker}.json"
