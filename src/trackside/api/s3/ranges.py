"""Byte ranges of a GET: `bytes=0-9`, `bytes=5-`, `bytes=-3`."""

import re

from trackside.api.s3.errors import s3_error

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Start and end (not included), or None for all: also of what is no single range, as in S3."""
    matched = _RANGE.fullmatch(header.strip()) if header else None
    if matched is None or matched[1] == matched[2] == "":
        return None
    first, last = matched[1], matched[2]
    if first == "":
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < start:
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
        raise s3_error("InvalidArgument", f"x-amz-copy-source-range: {header!r} is no byte range.")
    start, end = int(matched[1]), int(matched[2]) + 1
    if not start < end <= size:
        raise s3_error("InvalidRange", f"The source has {size} bytes; {header!r} is beyond.")
    return start, end
