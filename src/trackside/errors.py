"""The one exception tree. Every class has a stable `code`, explained in docs/errors.md.

TracksideError
├── SpecError               the request itself is wrong; nothing was created
│   ├── InvalidSpec         one or more fields break the contract
│   ├── InvalidSetting      a TRACKSIDE_ variable is unknown or wrong
│   └── InvalidIssueState   an issue cannot be set to this state
├── StorageError            an object store refused, or did not respond
│   ├── UnknownScheme
│   ├── ObjectNotFound
│   ├── ObjectChanged       another version than the one expected
│   ├── EpochOver           a newer group of hosts has taken the job over
│   ├── AccessRefused
│   ├── StoreUnreachable
│   ├── InvalidKey
│   ├── DamagedTransfer
│   └── TransferStopped     the caller requested to stop
├── InvalidCurveRequest     a request for points of curves breaks its contract
├── InputError              a channel cannot be provided
│   ├── InvalidPattern      a search for something that is no regular expression
│   └── NoTensors           a view of tensors of a job that has saved none, or not those
├── BadQuery                a search text cannot be understood; it has the place
├── ArchiveError            an archive is damaged or would leave its folder
├── SandboxError            the sandbox of a script cannot be created
│   ├── ContainerRefused    the engine does not make or start a container of this image
│   └── EngineGone          the container engine that is to run it does not respond
├── ImageError              an image cannot be pulled or built, or there is no engine for it
├── DiskFull                no space left or read-only, with the folder and the way out
├── QuotaExceeded           the jobs of an owner store more on the server than they may
├── OwnerLimitExceeded      a job needs more than its owner may use at a time
├── MissingExtra            a package that only this command needs is not installed
├── TensorBoardFailed       TensorBoard did not start, or ended
├── AuditFailed             a run of an audit of resuming failed, or had nothing to compare
├── ServerRefused           the server cannot start with these settings
├── ServerError             a request to the server that runs the jobs failed
│   ├── ServerUnreachable   it does not respond, or only that it is busy
│   ├── KeyRefused          no access key, a wrong one, one without the right, or clocks that differ
│   └── OnlyAtServer        needs the job's folder, and was called elsewhere
├── DatabaseError           the database that servers share cannot be used
│   ├── DatabaseUnreachable it did not respond; a later retry may work
│   └── DatabaseRefused     it refused: password, name, rights, format
├── ToolkitError            `train` cannot run the script; the message is the failure text
│   ├── CommandFailed       the script, or pip before it, ended with a code other than 0
│   └── StoppedEarly        a stop signal came before the script was started
├── IssueNotFound           no issue, or several, begin with the given id
├── NoRun                   `log`, `watch` or `finish` without a run: `trackside.init` starts one
└── JobError
    ├── JobNotFound
    │   └── JobElsewhere    it is on another server, and only that one can do this
    ├── AmbiguousName       several job names start with the given text
    ├── JobExists
    ├── DamagedJob          its stored records cannot be read
    ├── CurvesTaken         two jobs would mix their event files
    ├── CurveNotFound       the job has no curve with this id
    ├── JobBusy             a suspended process holds the lock of its journal
    ├── JobNotFinished
    ├── JobFailed           raised by fit() and wait(), carries the reason and the last lines
    ├── JobStopped          it was stopped by a rule, its time limit or a user
    └── MoveRefused         this status may not follow the current one
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from trackside.texts.shown_names import shown_name

_MOST_LISTED = 10
ERROR_HEADER = "x-trackside-error"
"""The header in which the server sends the `code` of an error, beside AWS's."""


class TracksideError(Exception):
    """Base of all errors. The message says which value is wrong, and what to do."""

    code: ClassVar[str] = "error"

    def __reduce__(self) -> Any:
        """Pickled by its attributes, because constructors take other arguments than `args`."""
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


class UnknownMember(Violation):
    """A member that no request has; a later version's may."""


class InvalidSetting(SpecError):
    code = "invalid_setting"


class InvalidIssueState(SpecError):
    code = "invalid_issue_state"


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


class EpochOver(StorageError):
    """A newer group of hosts has taken a job over: this one publishes nothing."""

    code = "epoch_over"


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


class InvalidCurveRequest(TracksideError):
    code = "invalid_curve_request"


class InputError(TracksideError):
    code = "input"


class InvalidPattern(InputError):
    code = "bad_pattern"

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(
            f"{pattern!r} is no regular expression that can be searched for: {why}. Escape "
            "characters that have a meaning, such as \\( or \\[, and write (?i) at the beginning "
            "to ignore case."
        )


class BadQuery(TracksideError):
    """`at` is the index of the first character that is wrong."""

    code = "bad_query"

    def __init__(self, what: str, advice: str, at: int) -> None:
        super().__init__(f"{what} {advice}")
        self.what = what
        self.advice = advice
        self.at = at


class NoTensors(InputError):
    code = "no_tensors"


class ArchiveError(TracksideError):
    code = "archive"


class SandboxError(TracksideError):
    code = "sandbox"


class ContainerRefused(SandboxError):
    code = "container_refused"


class EngineGone(SandboxError):
    code = "engine_gone"


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


class AuditFailed(TracksideError):
    code = "audit_failed"


class TensorBoardFailed(TracksideError):
    code = "tensorboard_failed"


class ServerRefused(TracksideError):
    code = "server_refused"


class ServerError(TracksideError):
    """The server refused the request, or what responds at its address is not a server."""

    code = "server"

    def __init__(self, text: str, *, service_code: str = "", is_repeated: bool = False) -> None:
        self.service_code = service_code
        """The error code of AWS, such as `ValidationException`."""
        self.is_repeated = is_repeated
        """An earlier request had no response and may have been executed."""
        super().__init__(text)


class ServerUnreachable(ServerError):
    code = "server_unreachable"


class KeyRefused(ServerError):
    code = "key_refused"


class OnlyAtServer(ServerError):
    code = "only_at_server"

    def __init__(self, what: str, url: str) -> None:
        super().__init__(
            f"{what} needs the job folders, which are on the server {url}. "
            "Run it there, or with TRACKSIDE_URL=embedded for the jobs of this machine."
        )


class DatabaseError(TracksideError):
    """`address` does not contain the password."""

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
    """A command that failed, with its last output; the toolkit writes the failure file from it."""

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
        """`sentence` is the reason, if that is not in the output."""
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


class IssueNotFound(TracksideError):
    code = "issue_not_found"

    @classmethod
    def of(cls, id: str, matching: Sequence[str]) -> IssueNotFound:
        """`matching` are the ids that begin with it."""
        if not matching:
            return cls(f"No issue has the id {id!r}. `trackside issues --all` lists all.")
        shown = ", ".join(matching[:_MOST_LISTED])
        return cls(f"Several issues begin with {id!r}: {shown}. Give more of the id.")


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
            f"No job is called {shown_name(name)!r}. `trackside jobs` lists the known jobs; "
            "`trackside reindex LOCATION` adds those of another output location."
        )


class JobElsewhere(JobNotFound):
    code = "job_elsewhere"

    def __init__(self, name: str, home: str) -> None:
        super().__init__(name)
        self.home = home
        self.args = (
            f"Job {shown_name(name)!r} is on the server {home!r}, and only that one can do this. "
            "Send the request to that server.",
        )


class AmbiguousName(JobError):
    """`names` are all job names that match, the newest first."""

    code = "ambiguous_name"

    def __init__(self, typed: str, names: Sequence[str]) -> None:
        self.names = tuple(names)
        shown = "".join(f"\n  {shown_name(name)}" for name in names[:_MOST_LISTED])
        more = len(names) - _MOST_LISTED
        shown += f"\n  and {more} more" if more > 0 else ""
        super().__init__(
            f"{len(names)} job names start with {typed!r}. Give more of the name:{shown}"
        )


class JobExists(JobError):
    code = "job_exists"

    def __init__(self, name: str) -> None:
        self.name = name
        shown = shown_name(name)
        super().__init__(
            f"A job called {shown!r} already exists. Choose another name; "
            f"`trackside delete {shown}` removes the existing one when it has ended."
        )


class DamagedJob(JobError):
    """The job's stored records cannot be read; other jobs are not affected."""

    code = "damaged_job"

    @classmethod
    def of(cls, name: str, what: str) -> DamagedJob:
        return cls(
            f"Job {shown_name(name)!r} cannot be read: {what}. Restore that file from a backup."
        )


class CurvesTaken(JobError):
    """The job's TensorBoard location holds another job's event files, or is claimed for them."""

    code = "curves_taken"

    def __init__(self, job: str, place: str, owner: str = "", output: str = "") -> None:
        self.job = job
        self.place = place
        self.owner = owner
        whose = f"those of job {owner!r} (output {output!r}) are" if owner else "others are"
        super().__init__(
            f"The event files of job {job!r} would be stored in {place!r}, where {whose}: their "
            "curves would be mixed. Choose another job name or TensorBoard location, or delete "
            f"everything below {place.rpartition('/')[0]!r} if it is no longer needed."
        )


class CurveNotFound(JobError):
    code = "curve_not_found"

    def __init__(self, curve: str, job: str) -> None:
        self.curve = curve
        self.job = job
        super().__init__(
            f"Job {shown_name(job)!r} has no curve {curve!r}. The list of its curves has their ids."
        )


class JobBusy(JobError):
    """Another process, probably a suspended one, holds the lock of the job's journal."""

    code = "job_busy"

    def __init__(self, name: str, journal: str, seconds: float, holder: int | None) -> None:
        self.name = name
        self.holder = holder
        """Its pid, if known."""
        who = "another process" if holder is None else f"process {holder}"
        pid = "PID" if holder is None else holder
        found = "" if holder is not None else f"`fuser {journal}` names it. "
        super().__init__(
            f"Job {shown_name(name)!r} was not changed: {who} has held the lock of its journal for "
            f"{seconds:g} s. {found}If it is suspended, `kill -CONT {pid}` resumes it; if not, "
            f"`kill -KILL {pid}` ends it, and a supervisor is replaced. Then retry."
        )


class JobNotFinished(JobError):
    code = "job_not_finished"


class JobFailed(JobError):
    """A failed job, with its reason and last lines; `jobs.end_reason` collects them."""

    code = "job_failed"

    def __init__(self, name: str, reason: str, evidence: str = "") -> None:
        self.name = name
        self.reason = reason
        text = f"Job {shown_name(name)!r} failed: {reason}"
        super().__init__(text + (f"\n{evidence}" if evidence else ""))


class JobStopped(JobError):
    """A job that was stopped before its script ended; `jobs.stopped` creates it."""

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
