"""The curves of a job that a user asks for by name. Pure."""

from typing import TYPE_CHECKING

from trackside.curves.curve_choice import Curve, Origin, all_curves
from trackside.curves.event_reader import Curves

if TYPE_CHECKING:
    from trackside.views.query.query import TextQuery


def chosen(
    curves: Curves, tag: str = "", *, system: bool, query: "TextQuery | None" = None
) -> list[Curve]:
    """Curves with `tag` in their name that match the query, the machine's only with `system`."""

    def is_chosen(curve: Curve) -> bool:
        names = (curve.name, f"{curve.series.run}/{curve.series.tag}")
        is_tagged = any(tag in name for name in names)
        return is_tagged and (query is None or any(map(query.matches, names)))

    return [
        curve
        for curve in all_curves(curves)
        if system or curve.origin is not Origin.MACHINE
        if is_chosen(curve)
    ]
