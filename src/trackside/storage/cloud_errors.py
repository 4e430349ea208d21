"""Converts obstore's errors to ours, with the way out in the message."""

import re

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    GenericError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from trackside.errors import (
    AccessRefused,
    InvalidKey,
    ObjectChanged,
    ObjectNotFound,
    StorageError,
    StoreUnreachable,
)
from trackside.quick_dataclass import dataclass

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]+)</Code>")
_TEXT = re.compile(r"<Message>([^<]+)</Message>")
_CAUSE = re.compile(r'message: "([^"]+)"|error: "([^"]+)"')

_REFUSALS = {
    "InvalidAccessKeyId": "The access key is not known there. Check AWS_ACCESS_KEY_ID.",
    "SignatureDoesNotMatch": "The secret key is wrong. Check AWS_SECRET_ACCESS_KEY.",
    "ExpiredToken": "The session token has expired. Get new credentials.",
    "RequestTimeTooSkewed": "This machine's clock differs from the store's. Set it right.",
}
_OTHER_REFUSAL = "These credentials may not do this. Check the policy of user and bucket."
_METADATA_SERVICES = ("169.254.169.254", "169.254.170.2", "metadata.google.internal")


@dataclass(frozen=True, slots=True)
class BucketLabel:
    """A bucket as its users know it, for messages."""

    name: str
    """`s3://bucket`."""
    server: str
    advice: str
    """What to do when there are no credentials."""

    def at(self, key: str) -> str:
        return f"'{self.name}/{key}'" if key else f"'{self.name}'"


def translated(error: Exception, label: BucketLabel, key: str) -> StorageError:
    where = f"{label.at(key)} at {label.server}"
    text, _, debug = str(error).partition("\n\nDebug source:")
    code = _first(_CODE, text)
    if code == "NoSuchBucket":
        return ObjectNotFound(
            f"There is no bucket {label.name!r} at {label.server}. Create it, or check its name."
        )
    match error:
        case FileNotFoundError():
            return ObjectNotFound(f"{where} does not exist. Check the name.")
        case AlreadyExistsError():
            return ObjectChanged(f"{where} exists already. Read it again.")
        case PreconditionError():
            return ObjectChanged(f"{where} was replaced by another writer. Read it again.")
        case PermissionDeniedError() | UnauthenticatedError():
            return _refused(where, code, label)
        case InvalidPathError() | ValueError():
            return InvalidKey(
                f"{where}: {text}. Keys with empty, '.' or '..' segments are not supported; "
                "rename that object."
            )
        case NotSupportedError():
            return StorageError(f"{where}: the server does not support this: {text}")
        case GenericError() | BaseError():
            return _generic(text, debug, where, code, label)
    return StorageError(f"{where}: {text}")


def of_response(status: int, body: str, label: BucketLabel, key: str) -> StorageError:
    """The error for a response to a request that was not sent by obstore."""
    return translated(GenericError(f"status code: {status} {body}"), label, key)


def is_refusal(error: Exception) -> bool:
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return True
    return _first(_STATUS, str(error)) in ("401", "403")


def is_beyond_the_end(error: Exception) -> bool:
    """The requested range starts at or after the end of an object that exists."""
    text = str(error)  # obstore's own text, for a server that sent the whole object instead
    return _first(_STATUS, text) == "416" or "Wanted range starting at" in text


def _refused(where: str, code: str, label: BucketLabel) -> AccessRefused:
    shown = f" ({code})" if code else ""
    advice = _REFUSALS.get(code) or label.advice or _OTHER_REFUSAL
    return AccessRefused(f"{where} is refused{shown}. {advice}")


def _generic(text: str, debug: str, where: str, code: str, label: BucketLabel) -> StorageError:
    """Connection errors, 5xx and other statuses share one class; the text distinguishes them."""
    if any(service in text for service in _METADATA_SERVICES) or "MissingAccount" in debug:
        return AccessRefused(f"{where}: no credentials were found. {label.advice}".rstrip())
    if "incorrectly configured region" in text:
        return AccessRefused(
            f"{where} is in another region. Set AWS_REGION to the bucket's region."
        )
    status = _first(_STATUS, text)
    if status in ("401", "403"):
        return _refused(where, code, label)
    if status == "404":
        return ObjectNotFound(f"{where} does not exist. Check the name.")
    if status == "412" or code == "ConditionalRequestConflict":
        return ObjectChanged(f"{where} was replaced by another writer. Read it again.")
    if "non-partial response" in text:
        return StorageError(
            f"{where}: the server sends whole objects where a part was requested. "
            "Use a server that supports range requests."
        )
    if status and status[0] != "5" and status not in ("408", "429"):
        message = _first(_TEXT, text) or code or text
        return StorageError(f"{where}: the store answered {status}: {message}")
    if status == "507" and (message := _first(_TEXT, text)):
        return StoreUnreachable(f"{where} cannot be stored: {message}")
    cause = f"it answers {status}" if status else _cause(text, debug)
    return StoreUnreachable(
        f"{where} cannot be reached: {cause}. Check the address and the network, then try again."
    )


def _cause(text: str, debug: str) -> str:
    """The system's own message (`Connection refused`, ...), else the last part of the chain."""
    found = _CAUSE.search(debug)
    if found is not None:
        return found[1] or found[2]
    if "TimedOut" in debug or "timed out" in text:
        return "it did not respond in time"
    return text.rpartition(" - ")[2].rpartition("HTTP error: ")[2]


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""
