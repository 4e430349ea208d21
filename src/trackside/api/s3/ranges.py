"""Byte ranges of a GET: `bytes=0-9`, `bytes=5-`, `bytes=-3`."""

import re

from trackside.api.s3.errors import s3_error
from trackside.api.s3.target import whole_number

_RANGE = re.compile(r"bytes=(\d*)-(\d*)", re.ASCII)
_BEYOND = 1 << 64
"""Further than any object reaches."""


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Start and end (exclusive), or None for all: also if it is not a single range, as in S3."""
    matched = _RANGE.fullmatch(header.strip()) if header else None
    if matched is None or matched[1] == matched[2] == "":
        return None
    first, last = matched[1], matched[2]
    if first == "":
        start, end = max(0, size - _span(last)), size
    else:
        start, end = _span(first), min(_span(last) + 1, size) if last else size
        if last and _span(last) < start:
            return None
    if start >= end:
        raise s3_error("InvalidRange", headers={"content-range": f"bytes */{size}"})
    return start, end


def copied_range(header: str | None, size: int) -> tuple[int, int]:
    """Of a part that is copied: both ends are named, and both must be there."""
    if header is None:
        return 0, size
    matched = _RANGE.fullmatch(header)
    if matched is None or "" in matched.groups():
        raise s3_error(
            "InvalidArgument", f"x-amz-copy-source-range: {header!r} is not a byte range."
        )
    start, end = _span(matched[1]), _span(matched[2]) + 1
    if not start < end <= size:
        raise s3_error("InvalidRange", f"The source has {size} bytes; {header!r} is beyond.")
    return start, end


def _span(digits: str) -> int:
    number = whole_number(digits)
    return _BEYOND if number is None else number
