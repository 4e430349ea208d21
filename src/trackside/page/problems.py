"""Errors of the page's API, and the HTTP status of every error.

An error is sent as {"error": {"code", "message", "advice"}}; some have more beside it.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from trackside.capture.exceptions import SMDebugError
from trackside.errors import (
    AccessRefused,
    ArchiveError,
    AuditFailed,
    BadQuery,
    CurveNotFound,
    DamagedJob,
    DatabaseError,
    DiskFull,
    ImageError,
    InputError,
    InvalidCurveRequest,
    IssueNotFound,
    JobError,
    JobNotFound,
    KeyRefused,
    MissingExtra,
    NoRun,
    ObjectNotFound,
    OwnerLimitExceeded,
    QuotaExceeded,
    SandboxError,
    ServerError,
    ServerRefused,
    ServerUnreachable,
    SpecError,
    StorageError,
    StoreUnreachable,
    TensorBoardFailed,
    ToolkitError,
    TracksideError,
)


class PageError(TracksideError):
    """A request that the page does not answer."""

    code = "page"
    status: ClassVar[int] = 400

    def __init__(self, message: str, advice: str = "") -> None:
        self.advice = advice
        super().__init__(message)


class BadRequest(PageError):
    code = "bad_request"


class LoginNeeded(PageError):
    code = "login_needed"
    status = 401


class LoginRefused(PageError):
    code = "login_refused"
    status = 403


class TooManyLogins(PageError):
    code = "too_many_logins"
    status = 429


class TooManyStreams(PageError):
    code = "too_many_streams"
    status = 429


class NotAllowed(PageError):
    code = "not_allowed"
    status = 403


class FromElsewhere(PageError):
    """A request that another site made, or for another host name."""

    code = "from_elsewhere"
    status = 403


class StalePage(PageError):
    """The CSRF token is missing, or of a session that has ended."""

    code = "stale_page"
    status = 403


class NotThere(PageError):
    code = "not_there"
    status = 404


class TooLarge(PageError):
    code = "too_large"
    status = 413


class TooBusy(PageError):
    code = "too_busy"
    status = 503


_STATUS: dict[type[TracksideError], int] = {
    AccessRefused: 502,
    ArchiveError: 422,
    AuditFailed: 422,
    BadQuery: 400,
    CurveNotFound: 404,
    DamagedJob: 502,
    DatabaseError: 503,
    DiskFull: 507,
    ImageError: 422,
    InputError: 400,
    InvalidCurveRequest: 400,
    IssueNotFound: 404,
    JobError: 409,
    JobNotFound: 404,
    KeyRefused: 401,
    MissingExtra: 501,
    NoRun: 409,
    ObjectNotFound: 404,
    OwnerLimitExceeded: 409,
    QuotaExceeded: 409,
    SMDebugError: 422,
    SandboxError: 422,
    ServerError: 502,
    ServerRefused: 409,
    ServerUnreachable: 503,
    SpecError: 400,
    StorageError: 502,
    StoreUnreachable: 503,
    TensorBoardFailed: 502,
    ToolkitError: 422,
}
"""By class; the nearest one above an error counts."""
_BY_CODE = {
    "damaged_keys": 503,
    "invalid_issue_state": 400,
    "invalid_label": 400,
    "keys_elsewhere": 503,
    "keys_unavailable": 503,
    "unknown_key": 401,
}
"""Of errors that are defined beside what raises them."""


def status_of(error: TracksideError) -> int:
    if isinstance(error, PageError):
        return error.status
    known = (_STATUS.get(kind) for kind in _kinds(error))
    return _BY_CODE.get(error.code) or next(filter(None, known), 500)


def as_json(error: TracksideError) -> dict[str, Any]:
    advice = getattr(error, "advice", "")
    shown: dict[str, Any] = {
        "error": {"code": error.code, "message": error.message, "advice": str(advice)}
    }
    if isinstance(at := getattr(error, "at", None), int):
        shown["at"] = at
    return shown


def _kinds(error: TracksideError) -> Iterator[type[TracksideError]]:
    for kind in type(error).__mro__:
        if issubclass(kind, TracksideError):
            yield kind
