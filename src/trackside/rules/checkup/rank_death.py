"""A rule about a process of a group that died: which one, how, where, and what the others did."""

import re
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from trackside.capture.reading.hang_files import Place, Standing, read_standings
from trackside.capture.reading.trial_folder import TrialFolder
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.checkup.hang_text import STUCK, call_of, own_place, ranks_said
from trackside.rules.checkup.vitals_rule import Sign, VitalsRule
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.evidence import Evidence
from trackside.rules.saved.vital_signs import VitalSigns
from trackside.storage.locate import Location

_BY_OTHERS = re.compile(
    r"connection (closed|reset|refused)|broken pipe|timed out|timeout|nccl|gloo|store|"
    r"process group|heartbeat|SignalException|peer",
    re.IGNORECASE,
)
"""Errors that a rank gets because another one is gone."""
_TOGETHER_SECONDS = 2.0
"""A launcher looks now and then: ends that it sees within this time have no order."""
_ENDED = -int(signal.SIGTERM)
"""By the launcher, or by whoever stops the job."""
_HINTS = {
    -int(signal.SIGKILL): "The kernel kills a process when memory runs out (dmesg says so): lower "
    "the batch size or the number of workers of its loader, or look for memory that grows.",
    -int(signal.SIGSEGV): "Look at the extension, or the tensor's memory, that the line uses.",
    -int(signal.SIGABRT): "A library aborted: its message is at the end of that rank's log.",
    -int(signal.SIGBUS): "Shared memory ran out, as for workers of a loader: enlarge /dev/shm.",
}


@dataclass
class RankDied(VitalsRule):
    """A process of a distributed training died, and took the others with it.

    Fires when one rank of a group ended by a signal or with an error of its own, before the others
    and otherwise than they did. Names how, its last step and, where that is known, its line, and
    what the others did. A job that is stopped, and an error that all ranks have, are not reported.
    """

    is_of_worker = False
    kind = Kind.MISTAKE
    is_independent = True
    leaves_training_loss = True
    explains_failure = True
    explains = ("Hang", "Crash")
    advice = "The end of that rank's log says more; the errors of the others only follow from it."

    _reported_ranks: set[int] = field(default_factory=set, init=False)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        return ()

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        return self._found(evidence.trial.location, is_all=evidence.is_all)

    def check_before_start(self, place: Location) -> Iterable[Finding]:
        """Also when the job has not saved anything yet."""
        return self._found(place, is_all=False)

    def _found(self, place: Location, *, is_all: bool) -> list[Finding]:
        group = [each for each in read_standings(TrialFolder(place)) if each.num_workers > 1]
        dead = died_first(group)
        if dead is None or dead.rank is None or dead.rank in self._reported_ranks:
            return []
        others = [each for each in group if each is not dead]
        if not is_all and not all(map(_afterwards, others)):
            return []  # what they do will be known soon
        self._reported_ranks.add(dead.rank)
        return [self._finding(dead, others)]

    def _finding(self, dead: Standing, others: Sequence[Standing]) -> Finding:
        hint = _HINTS.get(dead.exit_code or 0, "")
        return replace(
            Finding(rule=self.name(), message=message_of(dead, others)),
            advice=f"{hint} {self.advice}".strip(),
            step=max(dead.step, 0),
            worker=f"worker_{dead.rank}",
            subject=str(_line(dead) or ""),
            value=None if dead.exit_code is None else float(dead.exit_code),
            time=time.time(),
        )


def died_first(group: Sequence[Standing]) -> Standing | None:
    """Whose end is the cause of the others'; None if there is none, or all ended alike."""
    ended = [each for each in group if each.exit_code is not None or each.error]
    ended = [each for each in ended if each.rank is not None]
    own = [each for each in ended if each.exit_code != _ENDED and not _is_by_others(each)]
    if not own or len({_way(each) for each in own}) < len(own) or _is_of_all(own, group):
        return None
    first = min(own, key=_when)
    is_first = _when(first) <= min(map(_when, ended)) + _TOGETHER_SECONDS
    return first if is_first else None


def message_of(dead: Standing, others: Sequence[Standing]) -> str:
    line = _line(dead)
    at = f" at {line}" if line is not None else ""
    host = f" on {dead.host}" if dead.host else ""
    said = [f"Rank {dead.rank}{host} {_how(dead)}{at}, in step {dead.step} or right after it"]
    by_end: dict[str, list[Standing]] = {}
    for each in others:
        by_end.setdefault(_afterwards(each), []).append(each)
    said += [f"{ranks_said(group)} {end}" for end, group in by_end.items() if end]
    return "; ".join(said) + "."


def _how(dead: Standing) -> str:
    code = dead.exit_code
    if code is not None and code < 0:
        return f"was ended by {_signal_name(-code)}"
    if dead.error:
        return f"ended with {dead.error.splitlines()[0][:200]}"
    return f"ended with exit code {code}"


def _afterwards(other: Standing) -> str:
    line = _line(other)
    at = f" at {line}" if line is not None else ""
    if other.state in STUCK:
        return f"waited in {call_of(other)}{at}"
    if other.error:
        error = f"({other.error.splitlines()[0][:120]})"
        waited = _collective(other)
        return f"waited in {waited}{at} and failed {error}" if waited else f"failed{at} {error}"
    if other.exit_code == _ENDED:
        return "then ended by the launcher"
    return ""


def _collective(failed: Standing) -> str:
    """That it was in when it failed; empty if in none."""
    frames = failed.here.frames
    calls = [frame.function for frame in frames if "distributed_c10d.py" in frame.file]
    calls = [name for name in calls if name != "wrapper"]
    return calls[0] if calls else next((f.function for f in frames if f.function == "backward"), "")


def _is_by_others(standing: Standing) -> bool:
    """It failed in a collective, or says itself that another one is gone."""
    return bool(standing.error) and bool(_BY_OTHERS.search(standing.error))


def _is_of_all(own: Sequence[Standing], group: Sequence[Standing]) -> bool:
    return len({each.rank for each in own}) >= max(each.num_workers for each in group)


def _way(standing: Standing) -> tuple[int | None, str]:
    return standing.exit_code, standing.error.partition(":")[0]


def _when(standing: Standing) -> float:
    return standing.exit_time or standing.time


def _line(standing: Standing) -> Place | None:
    return own_place(standing.here)


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"
