"""A job's log from a server, byte for byte, during and after the job: GetLogEvents of its hosts'
streams, with bytes instead of events.
"""

import heapq
from collections.abc import Iterator, Mapping
from typing import Any

from trackside.jobs.logs import LogLine, LogPosition, SeenLogs, chosen_hosts, positions
from trackside.jobs.records import Record
from trackside.remote.api_client import ApiClient
from trackside.remote.retry_policy import SHORT_RETRY, RetryPolicy

GROUP = "/aws/sagemaker/TrainingJobs"
_BEGIN = LogPosition(1, 0)


class JobLog:
    """All hosts of a job, or one of them. Each call of `lines` continues where the last stopped."""

    def __init__(
        self,
        client: ApiClient,
        record: Record,
        host: str | None = None,
        after: SeenLogs | None = None,
        *,
        retry_policy: RetryPolicy = SHORT_RETRY,
    ) -> None:
        self._client = client
        self._name = record.spec.name
        self._hosts = chosen_hosts(record, host)
        self._retry_policy = retry_policy
        self._positions = positions(record, after or {})
        self._held: dict[str, LogPosition] = {}
        self._streams: dict[str, str] = {}

    def lines(self, *, whole: bool) -> Iterator[LogLine]:
        """What is new, in the order it was written.

        Unless `whole`, a last line without its end is held back until it is seen again unchanged:
        then it is a progress bar.
        """
        new = [self._lines(host, whole=whole) for host in self._hosts]
        return heapq.merge(*new, key=lambda line: (line.attempt, line.time))

    def tail(self, host: str, num_lines: int) -> list[str]:
        """The last lines of one host, for people."""
        response = self._send(host, limit=num_lines)
        return [event["message"] for event in response["events"]]

    def _lines(self, host: str, *, whole: bool) -> Iterator[LogLine]:
        is_last = False
        while not is_last:
            position = self._positions.get(host, _BEGIN)
            page = self._send(host, Trackside=position._asdict())["Trackside"]
            is_last = page["is_last"]
            for line in (_line(host, record) for record in page["lines"]):
                if not whole and is_last and self._is_held(line):
                    return
                self._positions[host] = line.end
                yield line

    def _is_held(self, line: LogLine) -> bool:
        """At the last read it was another line, or none."""
        if line.data.endswith(b"\n") or self._held.get(line.host) == line.end:
            return False
        self._held[line.host] = line.end
        return True

    def _send(self, host: str, **request: Any) -> dict[str, Any]:
        return self._call("GetLogEvents", {"logStreamName": self._stream(host), **request})

    def _stream(self, host: str) -> str:
        if not self._streams:
            for name in self._stream_names():
                self._streams[name.rpartition("/")[2].rpartition("-")[0]] = name
        return self._streams[host]

    def _stream_names(self) -> Iterator[str]:
        request = {"logStreamNamePrefix": f"{self._name}/"}
        while True:
            response = self._call("DescribeLogStreams", request)
            yield from (stream["logStreamName"] for stream in response["logStreams"])
            if "nextToken" not in response:
                return
            request["nextToken"] = response["nextToken"]

    def _call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        given = {"logGroupName": GROUP, **request}
        target = f"Logs_20140328.{operation}"
        return self._client.call(target, given, job=self._name, retry_policy=self._retry_policy)


def _line(host: str, record: Mapping[str, Any]) -> LogLine:
    data = record["data"].encode("utf-8", "surrogateescape")
    return LogLine(host, record["attempt"], record["offset"], record["time"], data)
