"""Converts a server's error responses from AWS's form back to our errors."""

import json
from collections.abc import Iterator

import trackside
from trackside.errors import (
    ERROR_HEADER,
    JobNotFound,
    KeyRefused,
    ServerError,
    ServerUnreachable,
    TracksideError,
)
from trackside.remote.connections import Response

_KEY_ADVICE = (
    "Check TRACKSIDE_ACCESS_KEY_ID and TRACKSIDE_SECRET_ACCESS_KEY, or `trackside login {}` again; "
    "`trackside keys list` on the server's machine shows which keys are good."
)
_WRONG_KEY = {
    "MissingAuthenticationTokenException": "is not given",
    "UnrecognizedClientException": "is not known there",
    "InvalidSignatureException": "has another secret there",
    "IncompleteSignatureException": "cannot be read there",
}
_SKEWED = "Signature expired: "
_NOT_FOUND = "Requested resource not found."
_SHOWN_MOST = 200


def refused(
    response: Response, url: str, key_id: str, job: str, *, is_repeated: bool
) -> TracksideError:
    """`is_repeated` when the request was sent before, with an unknown result."""
    try:
        error = json.loads(response.body)
        code, text = str(error["__type"]).rpartition("#")[2], str(error["message"])
    except (ValueError, KeyError, TypeError):
        return not_ours(response, url)
    if code in _WRONG_KEY:
        return _key_refused(code, text, url, key_id)
    if code == "AccessDeniedException":
        return KeyRefused(f"{url}: {text}")
    is_unknown = "at 'trackside" in text and "is not known" in text
    if code == "UnknownOperationException" or is_unknown:
        return ServerError(
            f"The server at {url} is older than this client ({trackside.__version__}): {text} "
            "Update the server."
        )
    own = response.headers.get(ERROR_HEADER, "")
    if own == JobNotFound.code or (job and text == _NOT_FOUND):
        return JobNotFound(job)
    if response.status >= 500 or response.status == 429:
        return unreachable(url, f"it answers {response.status}: {text}")
    for cls in _plain_classes(TracksideError):
        if cls.code == own:
            return cls(text)
    return ServerError(text, service_code=code, is_repeated=is_repeated)


def not_ours(response: Response, url: str) -> ServerError:
    shown = response.body.decode(errors="replace").strip()[:_SHOWN_MOST]
    return ServerError(
        f"What answers at {url} is no Trackside server: status {response.status}, {shown!r}. "
        "Check TRACKSIDE_URL."
    )


def unreachable(url: str, cause: str) -> ServerUnreachable:
    return ServerUnreachable(
        f"The server at {url} cannot be reached: {cause}. Start it there with `trackside server`, "
        "or check TRACKSIDE_URL and the profile of `trackside login`; "
        "TRACKSIDE_URL=embedded runs jobs on this machine, without a server."
    )


def _key_refused(code: str, text: str, url: str, key_id: str) -> KeyRefused:
    if text.startswith(_SKEWED):
        times = text.removeprefix(_SKEWED)
        return KeyRefused(f"This machine's clock differs from that of {url}. {times} Set it right.")
    advice = _KEY_ADVICE.format(url)
    return KeyRefused(f"{url} refuses the access key {key_id!r}: it {_WRONG_KEY[code]}. {advice}")


def _plain_classes(cls: type[TracksideError]) -> Iterator[type[TracksideError]]:
    """Error classes whose only argument is a message."""
    if cls.__init__ is Exception.__init__:
        yield cls
    for sub in cls.__subclasses__():
        yield from _plain_classes(sub)
