"""A host's log byte for byte, for our own client: CloudWatch's events are whole lines of text."""

from typing import Any

from trackside.api.log_streams import Stream
from trackside.jobs.logs import LogPosition

PAGE_BYTES = 1 << 20


def page(stream: Stream, after: LogPosition) -> dict[str, Any]:
    """What is there now after this place, also of a line that has not ended yet.

    Bytes that are no text are lone surrogates, which come back as the bytes they were.
    """
    lines: list[dict[str, Any]] = []
    size = 0
    name = stream.record.spec.name
    for line in stream.jobs.logs(name, host=stream.host, after={stream.host: after}):
        if size >= PAGE_BYTES:
            return {"lines": lines, "is_last": False}
        size += len(line.data)
        data = line.data.decode("utf-8", "surrogateescape")
        lines.append(
            {"attempt": line.attempt, "offset": line.offset, "time": line.time, "data": data}
        )
    return {"lines": lines, "is_last": True}
