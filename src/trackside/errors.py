"""The one exception tree. Every class has a stable `code`, explained in docs/errors.md.

TracksideError
├── SpecError               the request itself is wrong; nothing was created
│   ├── InvalidSpec         one or more fields break the contract
│   └── InvalidSetting      a TRACKSIDE_ variable is unknown or wrong
├── StorageError            an object store refused, or did not respond
│   ├── UnknownScheme
│   ├── ObjectNotFound
│   ├── ObjectChanged       another version than the one expected
│   ├── AccessRefused
│   ├── StoreUnreachable
│   ├── InvalidKey
│   ├── DamagedTransfer
│   └── TransferStopped     the caller requested to stop
├── InputError              a channel cannot be provided
├── ArchiveError            an archive is damaged or would leave its folder
├── SandboxError            the script's surroundings cannot be made
├── ImageError              an image cannot be pulled or built, or there is no engine for it
├── DiskFull                no space left or read-only, with the folder and the way out
├── QuotaExceeded           the jobs of an owner keep more on the server than they may
├── OwnerLimitExceeded      a job needs more than its owner may use at a time
├── MissingExtra            a package that only this command needs is not installed
├── TensorBoardFailed       TensorBoard did not start, or ended
├── ServerRefused           the server cannot start with these settings
├── ServerError             a request to the server that runs the jobs failed
│   ├── ServerUnreachable   it does not respond, or only that it is busy
│   ├── KeyRefused          no access key, a wrong one, one without the right, or clocks that differ
│   └── OnlyAtServer        needs the job's folder, and was called elsewhere
├── DatabaseError           the database that servers share did not do its part
│   ├── DatabaseUnreachable it did not respond; a later retry may work
│   └── DatabaseRefused     it refused: password, name, rights, format
├── ToolkitError            `train` cannot run the script; the message is the failure text
│   ├── CommandFailed       the script, or pip before it, ended with a code other than 0
│   └── StoppedEarly        a stop signal came before the script was started
├── NoRun                   `log`, `watch` or `finish` without a run: `trackside.init` begins one
└── JobError
    ├── JobNotFound
    │   └── JobElsewhere    another server has it, and only that one can do this
    ├── AmbiguousName       what was typed begins the names of several jobs
    ├── JobExists
    ├── DamagedJob          what is kept about it cannot be read
    ├── CurvesTaken         two jobs would mix their event files
    ├── JobBusy             a suspended process keeps the lock of its journal
    ├── JobNotFinished
    ├── JobFailed           raised by fit() and wait(), carries the reason and the last lines
    ├── JobStopped          it was cut off: by a rule, its time limit or somebody
    └── MoveRefused         a status may not follow the present one
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from trackside.texts.shown_names import shown_name

_MOST_LISTED = 10
ERROR_HEADER = "x-trackside-error"
"""The header in which the server sends the `code` of an error, beside AWS's."""


class TracksideError(Exception):
    """Base of all. The message says what is wrong with which value, and what to do."""

    code: ClassVar[str] = "error"

    def __reduce__(self) -> Any:
        """Its constructor takes other things than `Exception` keeps; so it is rebuilt, not made."""
        return _rebuilt, (type(self), self.args, vars(self))

    @property
    def message(self) -> str:
        return str(self)


class SpecError(TracksideError):
    code = "spec"


class InvalidSpec(SpecError):
    """All violations of one request at once; each names field, value and way out."""

    code = "invalid_spec"

    def __init__(self, violations: Sequence[Violation]) -> None:
        self.violations = tuple(violations)
        count = len(self.violations)
        head = "1 problem" if count == 1 else f"{count} problems"
        lines = "".join(f"\n  {violation}" for violation in self.violations)
        super().__init__(f"{head} in the job's specification:{lines}")


class Violation:
    """One broken constraint: where, what was given, and what would be right."""

    def __init__(self, field: str, value: object, advice: str, *, constraint: str = "") -> None:
        self.field = field
        self.value = value
        self.advice = advice
        self.constraint = constraint

    def __str__(self) -> str:
        shown = repr(self.value)
        if len(shown) > 120:
            shown = shown[:117] + "..."
        return f"{self.field} = {shown}: {self.advice}"

    def __repr__(self) -> str:
        return f"Violation({self})"


class InvalidSetting(SpecError):
    code = "invalid_setting"


class StorageError(TracksideError):
    code = "storage"


class UnknownScheme(StorageError):
    code = "unknown_scheme"

    def __init__(self, uri: str, known: Sequence[str], advice: str = "") -> None:
        self.uri = uri
        forms = f"{', '.join(known)}, or a path on this machine"
        super().__init__(f"Unknown location {uri!r}. Known forms: {forms}. {advice}".rstrip())


class ObjectNotFound(StorageError):
    code = "object_not_found"


class ObjectChanged(StorageError):
    """The object is no longer the version that was listed. Listing and reading again helps."""

    code = "object_changed"


class AccessRefused(StorageError):
    code = "access_refused"


class StoreUnreachable(StorageError):
    """The store did not respond, or responded 5xx, until retries ran out. A later retry may
    work."""

    code = "store_unreachable"


class InvalidKey(StorageError):
    code = "invalid_key"


class DamagedTransfer(StorageError):
    code = "damaged_transfer"


class TransferStopped(StorageError):
    code = "transfer_stopped"


class InputError(TracksideError):
    code = "input"


class ArchiveError(TracksideError):
    code = "archive"


class SandboxError(TracksideError):
    code = "sandbox"


class ImageError(TracksideError):
    code = "image"


class DiskFull(TracksideError):
    code = "disk_full"


class QuotaExceeded(TracksideError):
    code = "quota_exceeded"


class OwnerLimitExceeded(TracksideError):
    code = "owner_limit_exceeded"


class MissingExtra(TracksideError):
    code = "missing_extra"

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the package {package!r}, which is not installed. "
            f"Install it with: pip install 'trackside[{extra}]'"
        )


class TensorBoardFailed(TracksideError):
    code = "tensorboard_failed"


class ServerRefused(TracksideError):
    code = "server_refused"


class ServerError(TracksideError):
    """It refused the request with an error of its own; or what responds there is no server."""

    code = "server"

    def __init__(self, text: str, *, service_code: str = "", is_repeated: bool = False) -> None:
        self.service_code = service_code
        """Of AWS: `ValidationException`."""
        self.is_repeated = is_repeated
        """An earlier request had no response, and may have been carried out."""
        super().__init__(text)


class ServerUnreachable(ServerError):
    code = "server_unreachable"


class KeyRefused(ServerError):
    code = "key_refused"


class OnlyAtServer(ServerError):
    code = "only_at_server"

    def __init__(self, what: str, url: str) -> None:
        super().__init__(
            f"{what} needs the folders of the machine that runs the jobs, and those are at {url}. "
            "Run it there, or with TRACKSIDE_URL=embedded for the jobs of this machine."
        )


class DatabaseError(TracksideError):
    """`address` is without the password."""

    code = "database"

    def __init__(self, address: str, reason: str) -> None:
        self.address = address
        self.reason = reason
        super().__init__(f"The database {address!r} cannot be used: {reason}.")


class DatabaseUnreachable(DatabaseError):
    code = "database_unreachable"


class DatabaseRefused(DatabaseError):
    code = "database_refused"


class ToolkitError(TracksideError):
    code = "toolkit"


class CommandFailed(ToolkitError):
    """What ended, how, and its last output; the toolkit writes the failure file from it."""

    code = "command_failed"

    def __init__(
        self,
        kind: str,
        exit_code: int,
        *,
        output: str = "",
        command: str = "",
        sentence: str = "",
        seconds: float | None = None,
        out_of_memory: bool | None = None,
    ) -> None:
        """`sentence` is what went wrong, where that is not in its output."""
        self.kind = kind
        self.exit_code = exit_code
        self.output = output
        self.command = command
        self.sentence = sentence
        self.seconds = seconds
        self.out_of_memory = out_of_memory
        super().__init__(f"{kind}: {command} ended with exit code {exit_code}.")


class StoppedEarly(ToolkitError):
    code = "stopped_early"

    def __init__(self, signal_name: str) -> None:
        super().__init__(f"Stopped by {signal_name} before the script was started.")


class NoRun(TracksideError):
    """There is no run to log to, or it is finished."""

    code = "no_run"


class JobError(TracksideError):
    code = "job"


class JobNotFound(JobError):
    code = "job_not_found"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"No job is called {shown_name(name)!r}. `trackside jobs` lists those known here; "
            "`trackside reindex LOCATION` adds those of another output location."
        )


class JobElsewhere(JobNotFound):
    code = "job_elsewhere"

    def __init__(self, name: str, home: str) -> None:
        super().__init__(name)
        self.home = home
        self.args = (
            f"Job {shown_name(name)!r} is on the server {home!r}, and only that one can do this. "
            "Ask it there.",
        )


class AmbiguousName(JobError):
    """`names` are those of all jobs that it may stand for, the newest first."""

    code = "ambiguous_name"

    def __init__(self, typed: str, names: Sequence[str]) -> None:
        self.names = tuple(names)
        shown = "".join(f"\n  {shown_name(name)}" for name in names[:_MOST_LISTED])
        more = len(names) - _MOST_LISTED
        shown += f"\n  and {more} more" if more > 0 else ""
        super().__init__(
            f"{len(names)} jobs have names that begin with {typed!r}. Type more of one:{shown}"
        )


class JobExists(JobError):
    code = "job_exists"

    def __init__(self, name: str) -> None:
        self.name = name
        shown = shown_name(name)
        super().__init__(
            f"A job called {shown!r} already exists. Choose another name; "
            f"`trackside delete {shown}` forgets that one once it has ended."
        )


class DamagedJob(JobError):
    """What is kept about the job cannot be read; other jobs are not touched by that."""

    code = "damaged_job"

    @classmethod
    def of(cls, name: str, what: str) -> DamagedJob:
        return cls(
            f"Job {shown_name(name)!r} cannot be read: {what}. Put that file back from a copy."
        )


class CurvesTaken(JobError):
    """The job's TensorBoard location holds another job's event files, or is claimed for them."""

    code = "curves_taken"

    def __init__(self, job: str, place: str, owner: str = "", output: str = "") -> None:
        self.job = job
        self.place = place
        self.owner = owner
        whose = f"those of job {owner!r} (output {output!r}) go" if owner else "others are already"
        super().__init__(
            f"The event files of job {job!r} would go to {place!r}, where {whose}: nobody could "
            "tell their curves apart. Choose another job name or TensorBoard location, or delete "
            f"all below {place.rpartition('/')[0]!r} if it is of no more use."
        )


class JobBusy(JobError):
    """Another process keeps the lock of the job's journal, most likely one that is suspended."""

    code = "job_busy"

    def __init__(self, name: str, journal: str, seconds: float, holder: int | None) -> None:
        self.name = name
        self.holder = holder
        """Its pid, where that is known."""
        who = "another process" if holder is None else f"process {holder}"
        pid = "PID" if holder is None else holder
        found = "" if holder is not None else f"`fuser {journal}` names it. "
        super().__init__(
            f"Job {shown_name(name)!r} was not changed: {who} has kept the lock of its journal for "
            f"{seconds:g} s. {found}If it is suspended, `kill -CONT {pid}` lets it go on; if not, "
            f"`kill -KILL {pid}` ends it, and a supervisor is replaced. Then try again."
        )


class JobNotFinished(JobError):
    code = "job_not_finished"


class JobFailed(JobError):
    """What a person needs to know about a job that failed; `jobs.end_reason` collects it."""

    code = "job_failed"

    def __init__(self, name: str, reason: str, evidence: str = "") -> None:
        self.name = name
        self.reason = reason
        text = f"Job {shown_name(name)!r} failed: {reason}"
        super().__init__(text + (f"\n{evidence}" if evidence else ""))


class JobStopped(JobError):
    """A job that ended before its script did, by itself; `jobs.stopped` makes it."""

    code = "job_stopped"

    def __init__(self, name: str, cause: str, reason: str, evidence: str = "") -> None:
        self.name = name
        self.cause = cause
        """A `status.StopCause`."""
        self.reason = reason
        text = f"Job {shown_name(name)!r} is not Completed: {reason}"
        super().__init__(text + (f"\n{evidence}" if evidence else ""))


class MoveRefused(JobError):
    code = "move_refused"


def _rebuilt(kind: type[TracksideError], args: tuple[Any, ...], values: Mapping[str, Any]) -> Any:
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(values)
    return error
