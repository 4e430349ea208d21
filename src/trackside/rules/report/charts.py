"""Charts as SVG: curves, histograms and bars. A script of the page adds the values under the
pointer; charts are complete without it."""

import json
import math
from collections.abc import Sequence

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.reading.cube import Cube
from trackside.curves.curve_choice import STEP
from trackside.curves.downsample import thin
from trackside.quick_dataclass import dataclass
from trackside.rules.report.markup import Html, element, joined

POINTS = 360
"""Points per curve; extremes are kept."""
FEW_POINTS = 24
"""A curve with at most this many points has a marker at each."""
MOST_LINES = 8
"""As many as there are colours."""
WIDTH, HEIGHT = 400, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 36
LOG_FROM = 1e3
"""A curve whose values are further apart than this is drawn on a logarithmic axis."""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    x: Array
    y: Array

    @classmethod
    def of(cls, cube: Cube, column: int) -> "Line":
        """One tensor's values at the steps at which it was saved."""
        kept = cube.saved[:, column]
        return cls(cube.names[column], np.array(cube.steps)[kept], cube.values[kept, column])


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values to positions in the chart."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False
    is_whole: bool = False
    """Whether values are counts, without fractions between ticks."""

    @classmethod
    def around(
        cls,
        values: Array,
        start: float,
        end: float,
        *,
        may_be_log: bool = False,
        zero: bool = False,
        is_whole: bool = False,
    ) -> "Axis":
        finite = values[np.isfinite(values)]
        if not len(finite):
            return cls(0.0, 1.0, start, end)
        low, high = float(finite.min()), float(finite.max())
        if may_be_log and low > 0 and high / low > LOG_FROM:
            return cls(math.log10(low), math.log10(high), start, end, True)
        if zero:
            low, high = min(low, 0.0), high or 1.0
        if low == high:
            low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
        return cls(low, high, start, end, is_whole=is_whole)

    def place(self, values: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.log10(values) if self.is_log else np.asarray(values, float)
        share: Array = (values - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """About four round values."""
        if self.is_log:
            exponents = range(math.ceil(self.low), math.floor(self.high) + 1)
            every = max(1, math.ceil(len(exponents) / 4))
            return [10.0**exponent for exponent in exponents[::every]]
        rough = (self.high - self.low) / 4
        size = 10.0 ** math.floor(math.log10(rough))
        step = min((size, 2 * size, 5 * size, 10 * size), key=lambda each: abs(each - rough))
        step = max(step, 1.0) if self.is_whole else step
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def line_chart(
    title: str,
    lines: Sequence[Line],
    *,
    unit: str = "",
    x_name: str = STEP,
    zero: bool = False,
    marks: tuple[Array, Array] | None = None,
) -> Html:
    """Curves over one axis. `marks` are highlighted points."""
    shown = [_thinned(line) for line in lines[:MOST_LINES]]
    steps = _together([line.x for line in shown])
    x = Axis.around(steps, LEFT, WIDTH - RIGHT, is_whole=x_name == STEP)
    values = _together([line.y for line in shown])
    y = Axis.around(values, HEIGHT - BOTTOM, TOP, may_be_log=not zero, zero=zero)
    parts = [_grid(x, y, x_name)]
    parts += [_curve(line, x, y, place) for place, line in enumerate(shown)]
    if marks is not None:
        parts += _dots(x.place(marks[0]), y.place(marks[1]))
    parts.append(element("line", class_="cursor", y1=TOP, y2=HEIGHT - BOTTOM, visibility="hidden"))
    drawing = _svg(title, parts, data_chart=_for_script(shown, x, unit, x_name))
    notes = [
        "logarithmic" if y.is_log else "",
        "▼ not finite" if not np.isfinite(values).all() else "",
    ]
    return _figure(title, drawing, _legend(lines), unit, *notes)


def histogram(title: str, values: Array, *, unit: str, limit: float | None = None) -> Html:
    """How often each value occurs; a line at `limit` shows where outliers start."""
    finite = values[np.isfinite(values)]
    counts, edges = np.histogram(finite, bins=min(60, max(8, int(math.sqrt(len(finite))))))
    x = Axis.around(edges, LEFT, WIDTH - RIGHT)
    y = Axis.around(np.append(counts, 0), HEIGHT - BOTTOM, TOP)
    bottom, parts = HEIGHT - BOTTOM, [_grid(x, y, unit or "value")]
    for count, start, end in zip(counts, edges[:-1], edges[1:], strict=True):
        if count:
            left, right = x.place(np.array([start, end])).tolist()
            # Rare values matter most, so every bar is high enough to be visible.
            top = min(float(y.place(np.array([count]))[0]), bottom - 2)
            is_outlier = limit is not None and start >= limit
            title = f"{count:,} from {short(start)} to {short(end)} {unit}"
            bar = element(
                "rect", x=left, y=top, width=max(1.0, right - left - 1), height=bottom - top
            )
            parts.append(
                element("g", element("title", title), bar, class_="bad" if is_outlier else "bar")
            )
    return _figure(title, _svg(title, parts), None, "how many")


def stretch_bar(parts: Sequence[tuple[str, float]], labels: Sequence[str]) -> Html:
    """Consecutive durations as a bar, each with a width in proportion to its length."""
    total = sum(seconds for _, seconds in parts) or 1.0
    spans = [
        element(
            "span",
            class_=f"stretch s{place % MOST_LINES}",
            style=f"flex-grow:{max(seconds / total, 0.004):.4f}",
            title=f"{name}: {label}",
        )
        for place, ((name, seconds), label) in enumerate(zip(parts, labels, strict=True))
    ]
    keys = [
        _key(f"{name} {label}", place)
        for place, ((name, _), label) in enumerate(zip(parts, labels, strict=True))
    ]
    return joined(
        [
            element("div", joined(spans), class_="stretches"),
            element("div", joined(keys), class_="legend"),
        ]
    )


def short(value: float) -> str:
    """A number for an axis: 1.2k, 3.4M, 0.05, 1e-9."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 1e15:
        return f"{value:.0e}".replace("e+", "e")
    for limit, ending in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= limit:
            return f"{value / (1e3 if ending == 'k' else limit):.3g}{ending}"
    return f"{value:.4g}" if size >= 1e-3 or size == 0 else f"{value:.1e}".replace(".0e", "e")


def _thinned(line: Line) -> Line:
    chosen = thin(np.asarray(line.y, float), POINTS)
    return Line(line.name, line.x[chosen], np.asarray(line.y, float)[chosen])


def _together(parts: Sequence[Array]) -> Array:
    return np.concatenate([np.asarray(part, float) for part in parts] or [np.empty(0)])


def _curve(line: Line, x: Axis, y: Axis, place: int) -> Html:
    """Broken where the value is not finite, with a mark at the top."""
    across, up = x.place(line.x), y.place(line.y)
    finite = np.isfinite(up) & np.isfinite(across)
    steps, was = [], False
    for left, top, is_drawn in zip(across.tolist(), up.tolist(), finite.tolist(), strict=True):
        if is_drawn:
            steps.append(f"{'L' if was else 'M'}{left:.1f} {top:.1f}")
        was = is_drawn
    parts = [element("path", d="".join(steps), class_=f"curve s{place}")]
    if finite.sum() <= FEW_POINTS:
        parts += [
            element("circle", cx=float(a), cy=float(b), r=3.0, class_=f"dot s{place}")
            for a, b in zip(across[finite], up[finite], strict=True)
        ]
    parts += [
        element("path", d=f"M{left - 4:.1f} {TOP}h8l-4 7z", class_="broken")
        for left in across[~finite & np.isfinite(across)][:: max(1, int((~finite).sum()) // 40)]
    ]
    return joined(parts)


def _dots(across: Array, up: Array) -> list[Html]:
    return [
        element("circle", cx=left, cy=top, r=2.6, class_="outlier")
        for left, top in zip(across.tolist(), up.tolist(), strict=True)
        if math.isfinite(left) and math.isfinite(top)
    ]


def _grid(x: Axis, y: Axis, x_name: str) -> Html:
    bottom = HEIGHT - BOTTOM
    parts = []
    for value, place in zip(y.ticks(), y.place(np.array(y.ticks())).tolist(), strict=True):
        parts.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=place, y2=place, class_="rule"))
        is_nothing = not y.is_log and abs(value) < 1e-12 * abs(y.high - y.low)
        label = short(0.0 if is_nothing else value)
        parts.append(element("text", label, x=LEFT - 7, y=place + 4, class_="tick y"))
    for value, place in zip(x.ticks(), x.place(np.array(x.ticks())).tolist(), strict=True):
        parts.append(element("text", short(value), x=place, y=bottom + 16, class_="tick x"))
    parts.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=bottom, y2=bottom, class_="axis"))
    parts.append(element("text", x_name, x=WIDTH - RIGHT, y=HEIGHT - 4, class_="tick y"))
    return joined(parts)


def _svg(title: str, parts: Sequence[Html], **attributes: str) -> Html:
    box = f"0 0 {WIDTH} {HEIGHT}"
    return element(
        "svg", *parts, viewBox=box, role="img", aria_label=title, class_="chart", **attributes
    )


def _figure(title: str, drawing: Html, legend: Html | None, *notes: str) -> Html:
    note = ", ".join(filter(None, notes))
    caption = element("figcaption", title, element("small", note) if note else None)
    return element("figure", caption, drawing, legend, class_="card")


def _legend(lines: Sequence[Line]) -> Html | None:
    if len(lines) < 2:
        return None
    keys = [_key(line.name, place) for place, line in enumerate(lines[:MOST_LINES])]
    if len(lines) > MOST_LINES:
        keys.append(element("span", f"and {len(lines) - MOST_LINES} more, not drawn"))
    return element("div", joined(keys), class_="legend")


def _key(name: str, place: int) -> Html:
    return element("span", element("i", class_=f"s{place % MOST_LINES}"), name)


def _for_script(lines: Sequence[Line], x: Axis, unit: str, x_name: str) -> str:
    """The values that the pointer shows, as JSON without NaN."""
    data = {
        "from": [x.low, x.high, x.start, x.end],
        "x": x_name,
        "unit": unit,
        "lines": [
            {
                "name": line.name,
                "x": [float(f"{each:.7g}") for each in line.x],
                "y": [float(f"{v:.5g}") if math.isfinite(v) else str(v) for v in line.y],
            }
            for line in lines
        ],
    }
    return json.dumps(data, separators=(",", ":"), allow_nan=False)
