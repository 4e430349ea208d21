"""CloudWatch over the metrics of jobs: what SageMaker publishes there while it trains.

`metric_values` finds the values and computes statistics, `put_metrics` takes those of scripts.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

from trackside.api import tokens
from trackside.api.call import ServiceError
from trackside.api.json_service import Operation, OperationCall, Response
from trackside.api.keys import Rights
from trackside.api.metric_values import (
    JOB,
    MOST_DATAPOINTS,
    NAMESPACE,
    STATISTICS,
    Datapoint,
    Metric,
    MetricValues,
    Periods,
    datapoints,
    is_period,
    is_statistic,
)
from trackside.api.put_metrics import Dimension, PutMetrics
from trackside.api.validation import parsed
from trackside.errors import TracksideError
from trackside.jobs.index import Page
from trackside.jobs.jobs import Jobs
from trackside.records.members import member

T = TypeVar("T")

XML_NAMESPACE = "http://monitoring.amazonaws.com/doc/2010-08-01/"
MOST_LISTED = 500
MOST_QUERIES = 500
MOST_VALUES = 100_800
_JOBS_AT_ONCE = 100
_UNIT = "None"


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionFilter:
    name: str = member("Name", least=1, most=255)
    value: str | None = member("Value", default=None, least=1, most=1024)

    def matches(self, metric: Metric) -> bool:
        return metric.dimension == self.name and self.value in (None, metric.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsRequest:
    namespace: str = member("Namespace", least=1, most=255)
    metric: str = member("MetricName", least=1, most=255)
    dimensions: tuple[Dimension, ...] = member(
        "Dimensions", tuple, of=Dimension, default=(), most=30
    )
    start: float = member("StartTime", float)
    end: float = member("EndTime", float)
    period: int = member("Period", int, least=1)
    statistics: tuple[str, ...] = member("Statistics", tuple, default=(), least=1, most=5)
    percentiles: tuple[str, ...] = member("ExtendedStatistics", tuple, default=(), least=1, most=10)
    unit: str | None = member("Unit", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRequest:
    namespace: str = member("Namespace", least=1, most=255)
    name: str = member("MetricName", least=1, most=255)
    dimensions: tuple[Dimension, ...] = member(
        "Dimensions", tuple, of=Dimension, default=(), most=30
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StatRequest:
    metric: MetricRequest = member("Metric", MetricRequest)
    period: int = member("Period", int, least=1)
    statistic: str = member("Stat")
    unit: str | None = member("Unit", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    id: str = member("Id", pattern="[a-z][a-zA-Z0-9_]*", least=1, most=255)
    stat: StatRequest | None = member("MetricStat", StatRequest, default=None)
    expression: str | None = member("Expression", default=None)
    label: str | None = member("Label", default=None)
    is_returned: bool = member("ReturnData", bool, default=True)
    period: int | None = member("Period", int, default=None)
    account: str | None = member("AccountId", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDataRequest:
    queries: tuple[Query, ...] = member("MetricDataQueries", tuple, of=Query, most=MOST_QUERIES)
    start: float = member("StartTime", float)
    end: float = member("EndTime", float)
    token: str | None = member("NextToken", default=None)
    scan_by: str = member(
        "ScanBy",
        default="TimestampDescending",
        choices=("TimestampDescending", "TimestampAscending"),
    )
    most: int = member("MaxDatapoints", int, default=MOST_VALUES, least=1, most=MOST_VALUES)
    timezone: str | None = member("LabelOptions.Timezone", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListMetricsRequest:
    namespace: str | None = member("Namespace", default=None, least=1, most=255)
    metric: str | None = member("MetricName", default=None, least=1, most=255)
    dimensions: tuple[DimensionFilter, ...] = member(
        "Dimensions", tuple, of=DimensionFilter, default=(), most=10
    )
    token: str | None = member("NextToken", default=None)
    active: str | None = member("RecentlyActive", default=None, choices=("PT3H",))
    linked: bool = member("IncludeLinkedAccounts", bool, default=False)
    account: str | None = member("OwningAccount", default=None)

    def matches(self, metric: Metric) -> bool:
        return self.metric in (None, metric.name) and all(
            each.matches(metric) for each in self.dimensions
        )

    @property
    def job(self) -> str | None:
        """The only possible one, if the request names it."""
        return next((each.value for each in self.dimensions if each.name == JOB), None)


def operations(jobs: Jobs) -> dict[str, Operation]:
    metrics = TrainingMetrics(jobs)
    return {
        "GetMetricStatistics": Operation(Rights.READ, metrics.statistics, is_heavy=True),
        "GetMetricData": Operation(Rights.READ, metrics.data, is_heavy=True),
        "ListMetrics": Operation(Rights.READ, metrics.list, is_heavy=True),
        "PutMetricData": Operation(Rights.SUBMIT, PutMetrics(jobs).put),
    }


def service_error(error: TracksideError) -> ServiceError:
    return ServiceError("InternalServiceError", str(error), 500)


class TrainingMetrics:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._values = MetricValues(jobs)

    def statistics(self, call: OperationCall) -> Response:
        request = _parsed(StatisticsRequest, call)
        names = (*request.statistics, *request.percentiles)
        if not names:
            text = "At least one of the parameters Statistics and ExtendedStatistics is required."
            raise ServiceError("InvalidParameterCombination", text)
        for name in request.statistics:
            if name not in STATISTICS:
                raise _wrong(f"Statistics has {name!r}; it may have {', '.join(STATISTICS)}.")
        periods = _periods(request.start, request.end, request.period, names)
        if periods.count > MOST_DATAPOINTS:
            raise ServiceError(
                "InvalidParameterCombination",
                f"You have requested up to {periods.count:,} datapoints, which exceeds the limit "
                f"of {MOST_DATAPOINTS:,}. You may reduce the datapoints requested by increasing "
                "Period, or decreasing the time range.",
            )
        found = self._found(request.namespace, request.metric, request.dimensions, periods, names)
        plain = len(request.statistics)
        listed = [
            {
                "Timestamp": moment,
                **dict(zip(names[:plain], values[:plain], strict=True)),
                **_extended(names[plain:], values[plain:]),
                "Unit": _UNIT,
            }
            for moment, values in found
        ]
        return {"Label": request.metric, "Datapoints": listed}

    def data(self, call: OperationCall) -> Response:
        """Page by page through the values of all queries, as one list."""
        request = _parsed(MetricDataRequest, call)
        skip = before = _skipped(request.token, call)
        results, left = [], request.most
        for query in request.queries:
            found = list(self._query(query, request))
            if request.scan_by == "TimestampDescending":
                found.reverse()
            shown = found[skip : skip + left]
            is_cut = skip + len(shown) < len(found)
            skip, left = max(0, skip - len(found)), left - len(shown)
            if query.is_returned:
                results.append(_result(query, shown, is_cut=is_cut))
        response: dict[str, Any] = {"MetricDataResults": results, "Messages": []}
        if any(each["StatusCode"] == "PartialData" for each in results):
            response["NextToken"] = tokens.token(call.params, before + request.most)
        return response

    def list(self, call: OperationCall) -> Response:
        request = _parsed(ListMetricsRequest, call)
        namespace = request.namespace or NAMESPACE
        if request.job is not None:
            found = self._values.metrics(request.job, namespace)
            return {"Metrics": [_metric(each) for each in found if request.matches(each)]}
        page, skip = Page(limit=_JOBS_AT_ONCE), 0
        if request.token:
            with _token_errors():
                after, skip = tokens.position_after(request.token, call.params, page.order)
            page = replace(page, after=after)
        after = page.after
        listed: list[dict[str, Any]] = []
        rows = self._jobs.page(page)
        for row in rows:
            found = self._values.metrics(row.name, namespace)
            fitting = [each for each in found if request.matches(each)]
            for number, metric in islice(enumerate(fitting), skip, None):
                if len(listed) == MOST_LISTED:
                    return _page(call, listed, [after, number])
                listed.append(_metric(metric))
            after, skip = page.order.key(row), 0
        return _page(call, listed, [after, 0]) if len(rows) == page.limit else {"Metrics": listed}

    def _query(self, query: Query, request: MetricDataRequest) -> Iterator[Datapoint]:
        stat = query.stat
        if stat is None or query.expression is not None:
            text = f"The query {query.id!r} is no MetricStat. Expressions are not offered here."
            raise ServiceError("ValidationError", text)
        names = (stat.statistic,)
        periods = _periods(request.start, request.end, stat.period, names)
        metric = stat.metric
        return self._found(metric.namespace, metric.name, metric.dimensions, periods, names)

    def _found(
        self,
        namespace: str,
        metric: str,
        dimensions: tuple[Dimension, ...],
        periods: Periods,
        statistics: tuple[str, ...],
    ) -> Iterator[Datapoint]:
        """An unknown metric has no datapoints; that is no error."""
        named = {each.name: each.value for each in dimensions}
        points = self._values.points(namespace, metric, named)
        return datapoints(points, periods, statistics)


def _periods(start: float, end: float, seconds: int, statistics: tuple[str, ...]) -> Periods:
    if start >= end:
        raise _wrong("The parameter StartTime must be less than the parameter EndTime.")
    if not is_period(seconds):
        raise _wrong(f"Period is {seconds}; it may be 1, 5, 10, 20, 30 or a multiple of 60.")
    for name in statistics:
        if not is_statistic(name):
            known = ", ".join(STATISTICS)
            raise _wrong(f"The statistic {name!r} is not offered here. Known: {known}, p0 to p100.")
    return Periods(start, end, seconds)


def _extended(names: tuple[str, ...], values: list[float]) -> dict[str, Any]:
    return {"ExtendedStatistics": dict(zip(names, values, strict=True))} if names else {}


def _result(query: Query, shown: list[Datapoint], *, is_cut: bool) -> dict[str, Any]:
    assert query.stat is not None
    return {
        "Id": query.id,
        "Label": query.label or query.stat.metric.name,
        "Timestamps": [moment for moment, _ in shown],
        "Values": [value for _, [value] in shown],
        "StatusCode": "PartialData" if is_cut else "Complete",
    }


def _metric(metric: Metric) -> dict[str, Any]:
    dimension = {"Name": metric.dimension, "Value": metric.value}
    return {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": [dimension]}


def _page(
    call: OperationCall, listed: list[dict[str, Any]], position: list[Any]
) -> Mapping[str, Any]:
    return {"Metrics": listed, "NextToken": tokens.token(call.params, position)}


def _parsed(cls: type[T], call: OperationCall) -> T:
    try:
        return parsed(cls, call.params)
    except ServiceError as error:
        raise _wrong(error.message) from None


@contextmanager
def _token_errors() -> Iterator[None]:
    try:
        yield
    except ServiceError as error:
        raise ServiceError("InvalidNextToken", error.message) from None


def _skipped(token: str | None, call: OperationCall) -> int:
    with _token_errors():
        return int(tokens.position_in(token, call.params, int)) if token else 0


def _wrong(text: str) -> ServiceError:
    return ServiceError("InvalidParameterValue", text)
