"""Jobs side by side: what differs in what they are made of, and what came of them.

`Comparer` gives `Compare` of the page's API, for any number of jobs; `looked_at` gives the figures
of one, for the command line.
"""

import itertools
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, astuple, dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from trackside.curves.curve_choice import Curve, best
from trackside.curves.event_reader import read
from trackside.errors import InputError, TracksideError
from trackside.jobs.described_locations import curves_uri, num_hosts_of
from trackside.records.status import Status
from trackside.texts.secret_names import hidden
from trackside.texts.shown_names import shown_name
from trackside.views.comparison.compared_curves import (
    MOST_AT_STEP,
    MOST_METRICS,
    ComparedCurve,
    ComparedMetric,
    compared_curve,
    compared_metrics,
    last_up_to,
)
from trackside.views.comparison.compared_setup import (
    KINDS,
    RECORDED,
    Fact,
    Facts,
    facts_of,
)
from trackside.views.curves.binary_frame import as_json
from trackside.views.curves.chosen_curves import chosen
from trackside.views.job.machine_use import machine_use

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader
    from trackside.jobs.records import Record
    from trackside.views.curves.curve_list import CurveInfo
    from trackside.views.curves.series import CurveReader

MOST_JOBS = 1000
MOST_ROWS = 2000
AT_ONCE = 4
READ_AT_ONCE = min(AT_ONCE, max(2, os.cpu_count() or 1))
"""Jobs whose curves are read: more than there are processors would only make the first later."""
_KEPT_JOBS = 300
"""Ended jobs whose facts are kept in memory."""
_NOT_COMPARED = "sagemaker_"
"""Hyperparameters that say where the code is, not how it trains."""
_TAG = "tag"
_ORDER = (*KINDS, _TAG)
ValueAt = Callable[[str, "CurveInfo"], float | None]
"""By the name of the job and its curve."""


@dataclass(frozen=True, slots=True)
class ComparedJob:
    name: str
    shown: str
    status: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class ComparedPart:
    """One job of a comparison."""

    job: ComparedJob
    curves: list[ComparedCurve]

    def to_json(self) -> dict[str, Any]:
        curves = [astuple(curve) for curve in self.curves[:MOST_METRICS]]
        found: dict[str, Any] = as_json({"job": asdict(self.job), "curves": curves})
        return found


@dataclass(frozen=True, slots=True)
class Difference:
    kind: str
    name: str
    values: list[str | None]


@dataclass(frozen=True, slots=True)
class Compare:
    jobs: list[ComparedJob]
    same: int
    """Facts that are left out because they are equal in all jobs."""
    rows: list[Difference]
    metrics: list[ComparedMetric]

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = as_json(asdict(self))
        return found


class Comparer:
    """May be used by several threads."""

    def __init__(self, jobs: "JobReader", curves: "CurveReader") -> None:
        self._jobs = jobs
        self._curves = curves
        self._lock = Lock()
        self._kept: OrderedDict[tuple[str, str], Facts] = OrderedDict()

    def compare(self, names: Sequence[str], at_step: int | None = None) -> Compare:
        """`JobNotFound` if there is no such job, `InputError` for too many."""
        names = _checked(names)
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="trackside-compare") as pool:
            parts = list(pool.map(self._part_of(at_step), names))
            rows, same = self._differences(pool, names)
        metrics = compared_metrics([part.curves for part in parts])
        return Compare([part.job for part in parts], same, rows, metrics)

    def parts(
        self, names: Sequence[str], at_step: int | None = None
    ) -> Generator[dict[str, Any], None, None]:
        """Each job with its figures as soon as they are read, whichever is first: a page shows
        curves before all are read. Raises as `compare` does, after other parts.
        """
        names = _checked(names)
        pool = ThreadPoolExecutor(READ_AT_ONCE, thread_name_prefix="trackside-compare")
        try:
            part_of = self._part_of(at_step)
            places = {pool.submit(part_of, name): at for at, name in enumerate(names)}
            for future in as_completed(places):
                yield {"at": places[future], **future.result().to_json()}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def differences(self, names: Sequence[str]) -> dict[str, Any]:
        """What jobs differ in, without their metrics. Raises as `compare` does."""
        names = _checked(names)
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="trackside-compare") as pool:
            rows, same = self._differences(pool, names)
        return {"same": same, "rows": [asdict(row) for row in rows]}

    def _part_of(self, at_step: int | None) -> "Callable[[str], ComparedPart]":
        value_at = self._values_at(at_step)

        def part_of(name: str) -> ComparedPart:
            infos = self._curves_of(name)
            record = self._curves.job(name).record or self._jobs.record(name)
            found = [compared_curve(each, value_at(name, each)) for each in infos]
            return ComparedPart(_job(record), found)

        return part_of

    def _differences(
        self, pool: ThreadPoolExecutor, names: Sequence[str]
    ) -> tuple[list[Difference], int]:
        described = list(pool.map(self._jobs.describe, names))
        facts = pool.map(self._facts, described)
        # Tags may change after a job has ended: they are not among the facts that are kept.
        rows, same = differences(
            [{**made_of, **_tags(each)} for made_of, each in zip(facts, described, strict=True)]
        )
        return rows[:MOST_ROWS], same

    def _facts(self, described: Mapping[str, Any]) -> Facts:
        if not Status(described["TrainingJobStatus"]).is_final:
            return facts_of(self._jobs, described)
        key = (described["TrainingJobName"], str(described["CreationTime"]))
        with self._lock:
            if (known := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return known
        found = facts_of(self._jobs, described)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > _KEPT_JOBS:
                self._kept.popitem(last=False)
        return found

    def _curves_of(self, name: str) -> "list[CurveInfo]":
        try:
            found = self._curves.curves(name, vitals=False)
        except (TracksideError, OSError):
            return []
        return [each for each in found if each.kind != "machine" and not each.same_as]

    def _values_at(self, step: int | None) -> "ValueAt":
        """Of the last point up to the step, if the curve goes on until then."""
        if step is None:
            return lambda name, curve: None
        from trackside.views.curves.curve_request import CurveRef

        num_read = itertools.count()

        def value_at(name: str, curve: "CurveInfo") -> float | None:
            if not curve.first_step <= step <= curve.last_step or next(num_read) >= MOST_AT_STEP:
                return None
            try:
                points = self._curves.points(CurveRef(name, curve.id))
            except (TracksideError, OSError):
                return None
            return last_up_to(points, step)

        return value_at


def _checked(names: Sequence[str]) -> list[str]:
    names = list(dict.fromkeys(names))
    if len(names) > MOST_JOBS:
        raise InputError(f"{len(names):,} jobs are too many to compare. Choose {MOST_JOBS:,}.")
    return names


def differences(facts: Sequence[Facts]) -> tuple[list[Difference], int]:
    """Facts that are not the same in all jobs, and how many are. Pure."""
    keys = dict.fromkeys(key for of_job in facts for key in of_job)
    known = {kind: [any(key[0] == kind for key in of_job) for of_job in facts] for kind in _ORDER}
    rows, same = [], 0
    for kind, name in sorted(keys, key=lambda key: (_ORDER.index(key[0]), key[1])):
        held = [of_job.get((kind, name)) for of_job in facts]
        is_known = known[kind] if kind in RECORDED else [True] * len(facts)
        compared = {_value(one) for one, counts in zip(held, is_known, strict=True) if counts}
        if len(compared) > 1:
            rows.append(Difference(kind, name, [one.shown if one else None for one in held]))
        else:
            same += 1
    return rows, same


def _tags(described: Mapping[str, Any]) -> Facts:
    tags: Mapping[str, str] = described["Trackside"].get("tags", {})
    return {(_TAG, name): Fact(value, hidden(name, value)) for name, value in tags.items()}


def _value(fact: Fact | None) -> str | None:
    return None if fact is None else fact.value


def _job(record: "Record") -> ComparedJob:
    name, history = record.spec.name, record.history
    seconds = None
    if history.training_started is not None and history.ended is not None:
        seconds = float(max(1, int(history.ended - history.training_started)))
    elif history.training_started is not None:
        seconds = time.time() - history.training_started
    return ComparedJob(name, shown_name(name), str(history.state.status), seconds)


def looked_at(name: str, known: "JobReader", tag: str, system: bool) -> dict[str, Any]:
    """One job, with curves whose name contains `tag`."""
    described = known.describe(name)
    curves = read(curves_uri(described))
    return {
        "status": described["TrainingJobStatus"],
        "seconds": described.get("TrainingTimeInSeconds"),
        "hosts": num_hosts_of(described),
        "hyperparameters": {
            name: value
            for name, value in described.get("HyperParameters", {}).items()
            if not name.startswith(_NOT_COMPARED)
        },
        "arguments": described["Trackside"]["options"].get("Arguments", []),
        "metrics": {
            curve.name: _figures(curve)
            for curve in chosen(curves, tag, system=system)
            if not curve.same_as
        },
        "machine": machine_use(curves),
    }


def _figures(curve: Curve) -> dict[str, Any]:
    series, found = curve.series, best(curve.series)
    return {
        "tag": series.tag,
        "origin": curve.origin.name.lower(),
        "last": float(series.values[-1]),
        "step": int(series.steps[-1]),
        "best": None if found is None else found[0],
        "best_step": None if found is None else found[1],
    }
