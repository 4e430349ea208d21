"""Small charts and tables as HTML that needs nothing from elsewhere: for the reports of rules."""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT, _MARGIN = 640, 220, 48
_COLOURS = ("#3366cc", "#dc3912", "#109618", "#ff9900", "#990099", "#0099c6")
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2rem .6rem;"
    "text-align:right}svg{background:#fafafa;border:1px solid #ddd}"
)


def page(title: str, sections: Sequence[str]) -> str:
    """Sections are HTML already."""
    body = "\n".join(sections) or "<p>Nothing that this report shows was saved.</p>"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1>\n{body}\n</html>\n"
    )


def lines(series: Mapping[str, tuple[Sequence[int], Sequence[float]]]) -> str:
    """Name to steps and values, drawn in one frame."""
    steps = [step for xs, _ in series.values() for step in xs]
    values = [value for _, ys in series.values() for value in ys if math.isfinite(value)]
    if not steps or not values:
        return "<p>No values.</p>"
    across = _scale(min(steps), max(steps), _MARGIN, _WIDTH - 8)
    up = _scale(min(values), max(values), _HEIGHT - 24, 12)
    drawn = []
    for number, (name, (xs, ys)) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        pairs = zip(xs, ys, strict=True)
        points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in pairs if math.isfinite(y))
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        drawn.append(
            f'<text x="{_WIDTH - 12}" y="{24 + 16 * number}" text-anchor="end" '
            f'fill="{colour}" font-size="12">{escape(name)}</text>'
        )
    marks = (
        f'<text x="2" y="16" font-size="11">{max(values):.4g}</text>'
        f'<text x="2" y="{_HEIGHT - 24}" font-size="11">{min(values):.4g}</text>'
        f'<text x="{_MARGIN}" y="{_HEIGHT - 6}" font-size="11">step {min(steps)}</text>'
        f'<text x="{_WIDTH - 8}" y="{_HEIGHT - 6}" text-anchor="end" font-size="11">'
        f"{max(steps)}</text>"
    )
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}">{marks}{"".join(drawn)}</svg>'


def bars(values: Mapping[str, float]) -> str:
    """One below the other, in the order given."""
    largest = max((abs(value) for value in values.values()), default=0) or 1
    rows = []
    for number, (name, value) in enumerate(values.items()):
        y, width = 20 * number, (_WIDTH - 260) * abs(value) / largest
        rows.append(
            f'<text x="150" y="{y + 15}" text-anchor="end" font-size="12">{escape(name)}</text>'
            f'<rect x="160" y="{y + 4}" width="{width:.1f}" height="13" fill="{_COLOURS[0]}"/>'
            f'<text x="{165 + width:.1f}" y="{y + 15}" font-size="12">{value:.4g}</text>'
        )
    return f'<svg width="{_WIDTH}" height="{20 * len(values) + 8}">{"".join(rows)}</svg>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    titles = "".join(f"<th>{escape(each)}</th>" for each in head)
    lines_of = ("".join(f"<td>{escape(each)}</td>" for each in row) for row in rows)
    return f"<table><tr>{titles}</tr>{''.join(f'<tr>{line}</tr>' for line in lines_of)}</table>"


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """From data to pixels; all in the middle where the data are one value."""
    if not high > low:
        return lambda value: (start + end) / 2
    return lambda value: start + (value - low) * (end - start) / (high - low)
