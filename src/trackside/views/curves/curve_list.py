"""The list of a job's curves: names, charts, phases, units and figures, as the page shows them.

`curves/curve_choice.py` names and orders them. Curves are of three kinds: metrics, the machine's
figures, and vitals, which the hook saved as tensors.
"""

from base64 import urlsafe_b64encode
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from trackside.curves.curve_choice import Curve, Origin
from trackside.curves.curve_points import Figures
from trackside.curves.machine_curves import figure_of
from trackside.curves.metric_direction import is_more_better
from trackside.views.curves.binary_frame import number_name

Key = tuple[str, str]
"""Run and tag. A vital's run is its mode."""

_DIGEST_BYTES = 9


@dataclass(frozen=True, slots=True)
class CurveInfo:
    """`Curve` of the page's API."""

    id: str
    name: str
    group: str
    chart: str
    phase: str
    kind: str
    unit: str
    host: str
    same_as: str
    more_is_better: bool
    count: int
    first_step: int
    last_step: int
    last: float
    min: float
    max: float
    best: float
    best_step: int | None

    def as_json(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in self.__slots__}
        for name in ("last", "min", "max", "best"):
            found[name] = number_name(found[name])
        return found


def curve_id(run: str, tag: str) -> str:
    """Stable, short, and safe in an address."""
    return _identity("c", run, tag)


def vital_id(name: str, mode: str = "TRAIN") -> str:
    """Of a tensor that the hook saved, such as `vitals/gradient_norm`."""
    return _identity("v", mode, name)


def is_vital_id(curve: str) -> bool:
    return curve.startswith("v")


def info_of(curve: Curve, identity: str, figures: Figures, *, is_vital: bool) -> CurveInfo:
    tag = curve.series.tag
    is_machine = curve.origin is Origin.MACHINE
    is_more = is_more_better(tag)
    name = tag if is_machine else curve.name
    has_best = figures.low == figures.low
    best_step = figures.high_step if is_more else figures.low_step
    return CurveInfo(
        id=identity,
        name=name,
        group=name.rpartition("/")[0],
        chart=_chart(curve),
        phase=curve.phase,
        kind=_kind(curve, is_vital=is_vital),
        unit=_unit(tag) if is_machine else "",
        host=curve.series.run.rpartition("/")[2] if is_machine else "",
        same_as=curve.same_as,
        more_is_better=is_more,
        count=figures.count,
        first_step=figures.first_step,
        last_step=figures.last_step,
        last=figures.last,
        min=figures.low,
        max=figures.high,
        best=figures.high if is_more else figures.low,
        best_step=best_step if has_best else None,
    )


def _kind(curve: Curve, *, is_vital: bool) -> str:
    if curve.origin is Origin.MACHINE:
        return "machine"
    return "vital" if is_vital or curve.origin is Origin.HOOK else "metric"


def _chart(curve: Curve) -> str:
    """The same text in every job, so that jobs can be laid over each other."""
    if curve.origin is Origin.MACHINE:
        return f"machine {curve.series.tag}"
    title = " ".join(curve.metric) or curve.name
    return f"hook {title}" if curve.origin is Origin.HOOK else title


def _unit(tag: str) -> str:
    figure = figure_of(tag)
    if figure is None:
        return ""
    unit = figure.unit
    if unit.on_axis and unit.divisor == 1.0:
        return unit.on_axis
    return unit.suffix.strip("_").replace("_per_", "/")


def _identity(kind: str, run: str, tag: str) -> str:
    digest = blake2b(f"{run}\0{tag}".encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES)
    return kind + urlsafe_b64encode(digest.digest()).decode()
