"""What an S3 request is about: bucket, key and query, parsed from its URL.

Buckets are named in the path; names in the host would need a domain of their own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from trackside.api.call import Call
from trackside.api.s3.errors import s3_error

KEY_MOST_BYTES = 1024
_NUMBER_MOST = 2**31 - 1
_DIGITS = re.compile(r"\d{1,20}", re.ASCII)
"""No count is longer, and parsing would take long."""


@dataclass(frozen=True, slots=True)
class Target:
    """Bytes outside UTF-8 become surrogates, as in file names."""

    call: Call
    bucket: str
    key: str
    query: Mapping[str, str]

    @property
    def headers(self) -> Mapping[str, str]:
        return self.call.request.headers

    def number(self, name: str, otherwise: int, most: int) -> int:
        """A whole number of the query."""
        text = self.query.get(name, "")
        if not text:
            return otherwise
        number = whole_number(text)
        if number is None or number > _NUMBER_MOST:
            raise s3_error(
                "InvalidArgument", f"{name}={text[:64]!r} is not a number up to {_NUMBER_MOST}."
            )
        return min(number, most)


def read_target(call: Call) -> Target:
    bucket, _, key = split_path(decoded(call.request.path))
    if len(key.encode("utf-8", "surrogateescape")) > KEY_MOST_BYTES:
        raise s3_error("KeyTooLongError")
    if "\0" in key:
        raise s3_error("InvalidArgument", "A key cannot contain the NUL character.")
    return Target(call, bucket, key, read_query(call.request.query))


def whole_number(text: str) -> int | None:
    """None for an invalid number, or one larger than any count here."""
    return int(text) if _DIGITS.fullmatch(text) else None


def split_path(path: str) -> tuple[str, str, str]:
    """Splits `/bucket/key`; the key keeps every slash after the first."""
    return path.removeprefix("/").partition("/")


def read_query(query: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in query.split("&") if part)
    return {decoded(name): decoded(value) for name, _, value in pairs}


def decoded(text: str) -> str:
    return unquote_to_bytes(text).decode("utf-8", "surrogateescape") if "%" in text else text
