"""Slurm's own commands, here or on a login node over ssh, and what they print about jobs.

No library: those are bound to one version of Slurm. No `sacct`: many clusters keep no accounts.
"""

import re
import shlex
import subprocess
import time
from collections.abc import Mapping
from threading import Lock

from trackside.quick_dataclass import dataclass
from trackside.settings import Settings

_ANSWER_SECONDS = 30.0
"""A busy controller needs some; `squeue` itself gives up after 10 s and more."""
_FRESH_SECONDS = 2.0
"""So long one listing serves all jobs: a controller is asked at most this often."""
_SSH_FAILED = 255
_AWAY = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Connection timed out",
    "Zero Bytes were transmitted",
    "temporarily unable to accept job",
    "Slurm backup controller in standby mode",
    "Resource temporarily unavailable",
    "Unable to establish a configuration source",
    "Could not establish a configuration source",
    "MaxSubmitJob",
    "SubmitJobLimit",
)
"""What Slurm prints while it cannot take a job, or no more of this user's: it may later."""
_NO_CONFIGURATION = "establish a configuration source"
_NOT_SET_UP = (
    "its commands find no slurm.conf and no controller that gives them one; where no cluster is "
    "set up, name a login node: slurm:user@login"
)
_JOB = "%A|%T|%r|%N|%k"
_STEP = "%i|%j"


class SlurmAway(Exception):
    """It did not answer, or takes nothing now."""


class SlurmError(ValueError):
    """Slurm refuses it, in its own words."""


@dataclass(frozen=True, slots=True)
class SlurmJob:
    state: str
    """RUNNING, PENDING and so on, without abbreviations."""
    reason: str
    nodes: str
    """Such as `n[1-2]`; empty while there are none."""
    ended: Mapping[str, int]
    """The exit codes of hosts that have ended, which the batch script writes to the comment."""


class SlurmCommands:
    """`where` is `user@login` for a cluster that is reached over ssh, else empty."""

    def __init__(self, where: str = "") -> None:
        self._where = where

    def run(
        self, *words: str, given: str = "", environment: Mapping[str, str] | None = None
    ) -> str:
        """What the command prints."""
        if self._where:
            ssh = shlex.split(Settings.load().ssh_command)
            command = [*ssh, self._where, shlex.join(words)]
        else:
            command = [*words]
        try:
            done = subprocess.run(
                command,
                input=given,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_ANSWER_SECONDS,
                env=None if self._where else environment,
                check=False,
            )
        except FileNotFoundError as error:
            raise SlurmError(self._missing(command[0])) from error
        except subprocess.TimeoutExpired as error:
            raise SlurmAway(f"`{words[0]}` did not answer in {_ANSWER_SECONDS:g} s") from error
        if done.returncode:
            raise self._problem(words[0], done.returncode, done.stderr.strip())
        return done.stdout

    def jobs(self) -> Mapping[str, SlurmJob]:
        """All of this user that the controller remembers, by number; a few seconds old at most."""
        with _lock:
            known = _listings.get(self._where)
            if known is None or time.monotonic() - known[0] > _FRESH_SECONDS:
                known = _listings[self._where] = (time.monotonic(), self._list())
            return known[1]

    def nodes(self, form: str) -> list[str]:
        """A line in this form of `sinfo` for each; a few seconds old at most."""
        with _nodes_lock:
            known = _nodes.get((self._where, form))
            if known is None or time.monotonic() - known[0] > _FRESH_SECONDS:
                lines = self.run("sinfo", "-h", "-N", "-o", form).splitlines()
                known = _nodes[self._where, form] = (time.monotonic(), lines)
            return known[1]

    def steps(self, number: str) -> dict[str, str]:
        """Of a job, those that run: the number of each, `12.0`, by its name."""
        lines = self.run("squeue", "-h", "-s", "-j", number, "-o", _STEP).splitlines()
        return {name: step for step, _, name in (line.partition("|") for line in lines)}

    def forget(self) -> None:
        """After a change: the next listing is a new one."""
        with _lock:
            _listings.pop(self._where, None)

    def _list(self) -> dict[str, SlurmJob]:
        return _jobs_in(self.run("squeue", "-h", "--me", "-t", "all", "-o", _JOB))

    def _missing(self, program: str) -> str:
        if self._where:
            return f"the program {program!r} is not there; set TRACKSIDE_SSH_COMMAND to yours"
        return (
            f"the command {program!r} is not on this machine; submit from a login node of the "
            "cluster, or name one: slurm:user@login"
        )

    def _problem(self, command: str, code: int, text: str) -> Exception:
        last = _plain(text) or f"`{command}` ended with exit code {code}"
        if self._where and code == _SSH_FAILED:
            return SlurmAway(f"{self._where} cannot be reached: {last}")
        if any(part in text for part in _AWAY):
            return SlurmAway(f"{_NOT_SET_UP} ({last})" if _NO_CONFIGURATION in text else last)
        return SlurmError(last)


_lock = Lock()
_listings: dict[str, tuple[float, dict[str, SlurmJob]]] = {}
_nodes_lock = Lock()
_nodes: dict[tuple[str, str], tuple[float, list[str]]] = {}


def _plain(text: str) -> str:
    """`sbatch: error: Batch job submission failed: Invalid account` without its beginning."""
    lines = [re.sub(r"^\w+: (?:error|fatal): ", "", line) for line in text.splitlines()]
    return "; ".join(dict.fromkeys(line.strip() for line in lines if line.strip()))[:500]


def _jobs_in(text: str) -> dict[str, SlurmJob]:
    found = {}
    for line in text.splitlines():
        number, state, reason, nodes, comment, *_ = [*line.split("|"), "", "", "", ""]
        if number.isdigit():
            found[number] = SlurmJob(state, reason, nodes, _ended_in(comment))
    return found


def _ended_in(comment: str) -> dict[str, int]:
    pairs = (word.partition("=") for word in comment.split())
    return {host: int(code) for host, _, code in pairs if code.isdigit()}
