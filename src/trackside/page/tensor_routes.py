"""Routes about what the hook has saved: tensors, heat maps, ranks, the first texts."""

import math
from collections.abc import Iterator

from trackside.jobs.jobs import Jobs
from trackside.page.call import Answer, Api, Call
from trackside.views.job.first_texts import first_texts
from trackside.views.job.ranks import Ranks
from trackside.views.tensors.heat_map import HeatMaps, HeatRequest
from trackside.views.tensors.open_trials import OpenTrials
from trackside.views.tensors.tensor_view import TensorView

_COLUMNS_MOST = 8000


def tensor_routes(jobs: Jobs, trials: OpenTrials) -> Iterator[Api]:
    routes = _TensorRoutes(jobs, trials)
    yield Api("GET", "jobs/{name}/tensors", routes.tensors, is_heavy=True)
    yield Api("GET", "jobs/{name}/heat", routes.heat, is_heavy=True)
    yield Api("GET", "jobs/{name}/tensor", routes.tensor, is_heavy=True)
    yield Api("GET", "jobs/{name}/tensor/values", routes.values)
    yield Api("GET", "jobs/{name}/ranks", routes.ranks, is_heavy=True)
    yield Api("GET", "jobs/{name}/texts", routes.texts, is_heavy=True)


class _TensorRoutes:
    def __init__(self, jobs: Jobs, trials: OpenTrials) -> None:
        self._jobs = jobs
        self._maps = HeatMaps(trials)
        self._view = TensorView(trials)
        self._ranks = Ranks(trials, jobs.settings.layout)

    def tensors(self, call: Call) -> Answer:
        return self._maps.tensors(self._jobs.record(call.job), draft=call.query.flag("draft"))

    def heat(self, call: Call) -> Answer:
        query = call.query
        first, last = query.number("from"), query.number("to")
        request = HeatRequest(
            kind=query.text("kind", most=200),
            figure=query.text("figure", most=200),
            mode=query.text("mode", most=40),
            worker=query.text("worker", most=200),
            columns=query.integer("columns", 1000, low=1, high=_COLUMNS_MOST),
            first=-math.inf if first is None else first,
            last=math.inf if last is None else last,
            filter=query.text("filter", most=1000),
            scale=_scale(query.number("dark"), query.number("bright")),
            draft=query.flag("draft"),
        )
        return self._maps.heat(self._jobs.record(call.job), request)

    def tensor(self, call: Call) -> Answer:
        query = call.query
        record = self._jobs.record(call.job)
        who, mode = query.text("worker", most=200), query.text("mode", most=40)
        name, after = query.text("name"), query.integer("after", -1, low=-1)
        since = None if after < 0 else after
        return self._view.tensor(record, name, worker=who, mode=mode, after=since)

    def values(self, call: Call) -> Answer:
        query = call.query
        record = self._jobs.record(call.job)
        who, mode = query.text("worker", most=200), query.text("mode", most=40)
        step = query.integer("step", 0)
        return self._view.values(record, query.text("name"), step, worker=who, mode=mode)

    def ranks(self, call: Call) -> Answer:
        return self._ranks.frame(self._jobs.record(call.job))

    def texts(self, call: Call) -> Answer:
        return first_texts(self._jobs.record(call.job), self._jobs.settings.home)


def _scale(dark: float | None, bright: float | None) -> tuple[float, float] | None:
    return (dark, bright) if dark is not None and bright is not None and dark < bright else None
