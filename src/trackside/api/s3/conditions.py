"""Conditional requests: whether an object may be read, copied or replaced given the headers."""

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from trackside.api.call import ServiceError
from trackside.api.s3.errors import s3_error


def check_read(headers: Mapping[str, str], etag: str, modified: float, *, start: str = "") -> None:
    """Raises 412, or 304 for what the client already has. `start` is a copy's header prefix."""
    matches = headers.get(f"{start}if-match")
    excluded = headers.get(f"{start}if-none-match")
    if matches is not None:
        if not _names(matches, etag):
            raise s3_error("PreconditionFailed")
    else:
        since = _seconds(headers.get(f"{start}if-unmodified-since"))
        if since is not None and int(modified) > since:
            raise s3_error("PreconditionFailed")
    if excluded is not None:
        unchanged = _names(excluded, etag)
    else:
        since = _seconds(headers.get(f"{start}if-modified-since"))
        unchanged = since is not None and int(modified) <= since
    if unchanged:
        raise s3_error("PreconditionFailed") if start else _not_modified(etag)


def check_write(headers: Mapping[str, str], etag: str | None) -> None:
    """Before an object is replaced; `etag` is that of the present one, None without any."""
    matches, excluded = headers.get("if-match"), headers.get("if-none-match")
    if matches is not None:
        if etag is None:
            raise s3_error("NoSuchKey")
        if not _names(matches, etag):
            raise s3_error("PreconditionFailed")
    if excluded is not None and etag is not None and _names(excluded, etag):
        raise s3_error("PreconditionFailed")


def is_conditional(headers: Mapping[str, str]) -> bool:
    return "if-match" in headers or "if-none-match" in headers


def _not_modified(etag: str) -> ServiceError:
    return ServiceError("NotModified", "Not Modified", 304, {"etag": f'"{etag}"'})


def _names(header: str, etag: str) -> bool:
    if header.strip() == "*":
        return True
    given = (each.strip().removeprefix("W/").strip('"') for each in header.split(","))
    return etag in given


def _seconds(date: str | None) -> float | None:
    """None for an invalid date: such a condition is ignored."""
    if date is None:
        return None
    try:
        parsed = parsedate_to_datetime(date)
        return parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
