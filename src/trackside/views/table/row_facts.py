"""What the table knows of a job besides its row in the index: what it was given, and what came of
it. Small, and without secrets: it is kept for every job, and stored in the table's cache.
"""

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trackside.texts.secret_names import hidden
from trackside.texts.terminal_text import one_line
from trackside.texts.truncation import shortened
from trackside.views.query.search_conditions import as_parameters, plain_text

if TYPE_CHECKING:  # numpy and the rules are imported when a job is read
    from trackside.curves.curve_choice import Curve
    from trackside.jobs.details import JobDetails
    from trackside.records.finding import Finding
    from trackside.views.curves.curve_digest import CurveDigest

SPARK_POINTS = 40
MOST_METRICS = 2000
MOST_PARAMETERS = 500
MOST_CHARACTERS = 500
"""Of a value."""
_OWN = "sagemaker_"
"""Prefix of hyperparameters that say what to run."""
_MOST_ASKED = 1000
_CPU, _MEMORY = "cpu/total_percent", "memory/used_percent"
_GPU = ("gpu_", "/utilization_percent")


@dataclass(frozen=True, slots=True)
class Given:
    """Values that look secret are masked, for everybody: nobody can search for them."""

    parameters: Mapping[str, str] = field(default_factory=dict)
    """Hyperparameters, and arguments that say as much."""
    tags: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    hosts: int = 1
    metrics: Mapping[str, float] = field(default_factory=dict)
    """From its log, or reported by it through AWS's APIs."""
    machines: Sequence[str] = ()
    """Names of the machines of its hosts, where they are recorded."""
    failure: str = ""
    """Why it failed, in short."""


def given_of(details: "JobDetails", machines: Sequence[str] = ()) -> Given:
    own = {
        name: value for name, value in details.hyperparameters.items() if not name.startswith(_OWN)
    }
    parameters = [*{**as_parameters(details.arguments), **own}.items()][:MOST_PARAMETERS]
    return Given(
        {name: _shown(name, plain_text(value)) for name, value in parameters},
        {name: _shown(name, value) for name, value in details.tags.items()},
        details.note,
        details.num_hosts,
        dict([*details.metrics.items()][:MOST_METRICS]),
        [*machines],
        failure_line(details.failure),
    )


def failure_line(reason: str) -> str:
    """`KeyError: 'x', at train.py:31`: without the host and the exit code."""
    from trackside.views.job.failure_reason import in_short, without_source
    from trackside.views.problems.fingerprints import failure_of

    text = failure_of(in_short(reason)).text if reason else ""
    return shortened(one_line(without_source(text)), MOST_CHARACTERS)


def spelling(name: str) -> str:
    """`--batch-size` is what the script calls `batch_size`."""
    return name.replace("-", "_")


class MetricNames:
    """The names of a job's metrics, shared by all jobs that have the same."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._found: dict[str, int | None] = {}

    def find(self, name: str) -> int | None:
        """The index of the metric of this name, or of the one that it means: `val_loss` is
        `loss/val`, and `loss` prefers validation to training."""
        try:
            return self._found[name]
        except KeyError:
            found = self._search(name)
        if len(self._found) >= _MOST_ASKED:
            self._found.clear()  # other threads may read meanwhile
        self._found[name] = found
        return found

    def _search(self, name: str) -> int | None:
        if name in self.names:
            return self.names.index(name)
        from trackside.curves.curve_choice import PREFERRED_PHASES, phase_and_metric

        tagged = (at for at, each in enumerate(self.names) if each.endswith(f"/{name}"))
        if (at := next(tagged, None)) is not None:
            return at
        phase, metric = phase_and_metric(name)
        alike: dict[str, int] = {}
        for at, each in enumerate(self.names):
            of_each, metric_of_each = phase_and_metric(each)
            if metric_of_each == metric:
                alike.setdefault(of_each, at)
        phases = (phase,) if phase else PREFERRED_PHASES
        return next((alike[each] for each in phases if each in alike), None)


NO_METRICS = MetricNames(())


@dataclass(frozen=True, slots=True)
class Loss:
    name: str
    last: float
    spark: Sequence[float]
    """Finite values, extremes among them."""


@dataclass(frozen=True, slots=True)
class Found:
    count: int
    sentence: str
    rule: str
    step: int | None
    rules: Sequence[str]
    """All that have found something."""


@dataclass(frozen=True, slots=True)
class Use:
    """Of the machine, in per cent."""

    cpu: float | None
    memory: float | None
    gpu: float | None


@dataclass(frozen=True, slots=True)
class Made:
    names: MetricNames = NO_METRICS
    values: Sequence[float] = ()
    """The last value of each metric."""
    step: int | None = None
    """The last."""
    of: int | None = None
    """How many there will be, if that is certain."""
    loss: Loss | None = None
    found: Found | None = None
    use: Use | None = None


def made_of(
    digest: "CurveDigest",
    findings: "Sequence[Finding]",
    *,
    is_final: bool,
    total_steps: int | None = None,
) -> Made:
    """The use of the machine is the mean of a job that has ended, else the latest."""
    from trackside.curves.curve_choice import Origin, all_curves, main_loss

    curves = [each for each in all_curves(digest.curves()) if not each.same_as]
    own = [each for each in curves if each.origin is not Origin.MACHINE][:MOST_METRICS]
    scripts = [each for each in own if each.origin is not Origin.HOOK] or own
    loss = main_loss(own)
    step = max((int(each.series.steps[-1]) for each in scripts), default=None)
    is_possible = step is None or total_steps is None or step <= total_steps
    return Made(
        MetricNames([each.name for each in own]),
        array("d", [float(each.series.values[-1]) for each in own]),
        step,
        total_steps if is_possible else None,
        None if loss is None else Loss(loss.name, float(loss.series.values[-1]), spark_of(loss)),
        found_of(findings),
        _use(digest, curves, is_final=is_final),
    )


def spark_of(curve: "Curve") -> list[float]:
    import numpy

    from trackside.curves.downsample import thin

    finite = curve.series.values[numpy.isfinite(curve.series.values)]
    return [float(value) for value in finite[thin(finite, SPARK_POINTS)]]


def found_of(findings: "Sequence[Finding]") -> Found | None:
    if not findings:
        return None
    from trackside.rules.checkup.diagnosis import diagnose
    from trackside.views.job.diagnosis_text import diagnosis_sentence

    first = diagnose(findings)[0]
    rules = tuple(dict.fromkeys(each.rule for each in findings))
    return Found(len(findings), diagnosis_sentence(first), first.cause, first.step, rules)


def _use(digest: "CurveDigest", curves: "Sequence[Curve]", *, is_final: bool) -> Use | None:
    def mean(is_wanted: Any) -> float | None:
        chosen = [
            each.series for each in curves if _is_machine(each) and is_wanted(each.series.tag)
        ]
        shares = (
            digest.mean((one.run, one.tag)) if is_final else float(one.values[-1]) for one in chosen
        )
        known = [share for share in shares if share is not None and math.isfinite(share)]
        return round(sum(known) / len(known), 1) if known else None

    use = Use(
        mean(lambda tag: tag == _CPU),
        mean(lambda tag: tag == _MEMORY),
        mean(lambda tag: tag.startswith(_GPU[0]) and tag.endswith(_GPU[1])),
    )
    return None if use == Use(None, None, None) else use


def _is_machine(curve: "Curve") -> bool:
    from trackside.curves.curve_choice import Origin

    return curve.origin is Origin.MACHINE


def _shown(name: str, value: str) -> str:
    return shortened(hidden(name, value), MOST_CHARACTERS)
