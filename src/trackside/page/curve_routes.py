"""Routes about curves: their list, their points, groups of them, the machine, comparison."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trackside.jobs.jobs import Jobs
from trackside.page.call import Answer, Api, Call, Download, Frames, Lines
from trackside.views.comparison.compare import Comparer
from trackside.views.curves import binary_frame
from trackside.views.curves.curve_request import CurveRef, GroupRequest, SeriesRequest
from trackside.views.curves.series import CurveReader
from trackside.views.job.machine import MachineView


def curve_routes(jobs: Jobs, reader: CurveReader) -> Iterator[Api]:
    routes = _CurveRoutes(jobs, reader)
    yield Api("GET", "jobs/{name}/curves", routes.curves)
    yield Api("GET", "jobs/{name}/curve.csv", routes.csv, is_heavy=True)
    yield Api("POST", "series", routes.series)
    yield Api("POST", "groups", routes.groups, is_heavy=True)
    yield Api("GET", "jobs/{name}/machine", routes.machine)
    yield Api("POST", "compare", routes.compare, is_heavy=True)
    yield Api("POST", "compare/differences", routes.differences, is_heavy=True)


class _CurveRoutes:
    def __init__(self, jobs: Jobs, reader: CurveReader) -> None:
        self._reader = reader
        self._machine = MachineView(jobs, reader)
        self._comparer = Comparer(jobs, reader)

    def curves(self, call: Call) -> Answer:
        return {"curves": [each.as_json() for each in self._reader.curves(call.job)]}

    def csv(self, call: Call) -> Answer:
        ref = CurveRef(call.job, call.query.text("id", most=100))
        lines = (line.encode() for line in self._reader.csv(ref))
        return Download(f"{call.job}.csv", None, lines)

    def series(self, call: Call) -> Answer:
        request = SeriesRequest.from_json(call.body.whole)
        items = (each.as_frame_item() for each in self._reader.series(request))
        return _framed(call, items)

    def groups(self, call: Call) -> Answer:
        request = GroupRequest.from_json(call.body.whole)
        items = (each.as_frame_item() for each in self._reader.groups(request))
        return _framed(call, items)

    def machine(self, call: Call) -> Answer:
        return self._machine.view(call.job)

    def compare(self, call: Call) -> Answer:
        asked = call.body.names("jobs"), call.body.optional_integer("at_step")
        if call.body.flag("stream"):
            parts = self._comparer.parts(*asked)
            return Lines(parts, close=parts.close)
        return self._comparer.compare(*asked).to_json()

    def differences(self, call: Call) -> Answer:
        return self._comparer.differences(call.body.names("jobs"))


def _framed(call: Call, items: Iterable[Mapping[str, Any]]) -> Answer:
    """All items in one frame or, as a stream, each in its own as soon as it is ready. Nothing more
    is read when the client has gone."""
    wanted = _until_stopped(call, items)
    if call.body.flag("stream"):
        return Frames(binary_frame.encode([item]) for item in wanted)
    return binary_frame.encode(wanted)


def _until_stopped(call: Call, items: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for item in items:
        yield item
        if call.stop.is_set():
            return
