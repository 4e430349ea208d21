"""Charts of text: what is drawn where, on which scale, with which figures."""

import numpy
import pytest

from trackside.cli import axes
from trackside.cli.chart import Line, chart


def line(values: list[float], label: str = "", summary: str = "") -> Line:
    return Line(label, summary, numpy.arange(len(values)).astype(float), numpy.array(values))


def drawn(*lines: Line, columns: int = 40, rows: int = 10, is_ascii: bool = False) -> list[str]:
    found = chart("loss", lines, "step", (columns, rows), is_ascii=is_ascii)
    return [text.plain for text in found]


def test_a_line_goes_from_its_first_point_to_its_last():
    assert drawn(line([0.0, 1.0]), columns=20, rows=8, is_ascii=True) == [
        "loss   * ",
        "1.0 +             **",
        "    |         ****",
        "0.5 +      ***",
        "    |  ****",
        "0.0 +**",
        "    ++-------------+",
        "     0          step",
    ]


@pytest.mark.parametrize("columns", [40, 80, 140])
@pytest.mark.parametrize("rows", [7, 10, 20])
def test_a_chart_is_as_large_as_asked(columns: int, rows: int):
    one, other = line([3.0, 1.0, 2.0], "train", "train 2"), line([1.0, 5.0], "val", "val 5")
    for lines in ([one], [one, other]):
        found = drawn(*lines, columns=columns, rows=rows)
        assert len(found) == rows
        assert max(map(len, found)) <= columns


def test_a_spike_does_not_flatten_the_rest():
    values = [*[0.5, 0.6, 0.4, 0.7, 0.5, 0.45, 0.55, 0.65] * 6, 90.0, 60.0]
    spiky = drawn(line(values), columns=60, rows=14)
    assert spiky[0].startswith("loss (log scale)")
    low, high = sorted([values[2], values[3]])
    scale = axes.fitting(numpy.array(values))
    places = scale.places(numpy.array([low, high]), 40)
    assert places[1] - places[0] > 3
    assert drawn(line([2.0, 1.5, 1.2, 0.9, 0.7]))[0].startswith("loss   ")


def test_a_spike_among_values_of_both_signs_has_a_scale_too():
    values = [*[0.5, -0.6, 0.4, -0.7, 0.0, 0.45, 0.65, -0.3] * 6, -900.0]
    assert drawn(line(values))[0].startswith("loss (symmetric log scale)")


def test_values_that_are_not_finite_are_crossed_out():
    top = drawn(line([1.0, float("nan"), 0.5, float("inf"), 0.2]), columns=60)[1]
    assert top.count("×") == 2
    nothing = drawn(line([float("nan")] * 3), is_ascii=True)
    assert nothing[1].count("x") == 3


def test_the_ends_of_several_lines_are_labelled():
    rows = drawn(line([2.0, 1.0], "train", "train 1"), line([2.0, 1.02], "val", "val 1.02"))
    ends = [row.rsplit(" ", 1)[-1] for row in rows if row.endswith(("train", "val"))]
    assert sorted(ends) == ["train", "val"]


def test_what_has_no_room_beside_the_title_goes_below_it():
    long = "x" * 30
    rows = drawn(line([1.0, 2.0], "a", long), line([1.0, 2.0], "b", long))
    assert [row.strip() for row in rows[:2]] == [f"loss   ━ {long}", f"━ {long}"]


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0.0, 1.0, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (0.0, 100_000.0, ["0", "20k", "40k", "60k", "80k", "100k"]),
        (-3.0, 3.0, ["-3", "-2", "-1", "0", "1", "2", "3"]),
        (0.0, 5e-6, ["0.000000", "1e-06", "2e-06", "3e-06", "4e-06", "5e-06"]),
    ],
)
def test_figures_are_round(low: float, high: float, shown: list[str]):
    found = axes.ticks(axes.Scale(low, high), 20, least_apart=3.0)
    assert [found[place] for place in sorted(found)] == shown


def test_steps_are_whole():
    found = axes.ticks(axes.Scale(0.0, 2.0), 100, least_apart=10.0, is_whole=True)
    assert [*found.values()] == ["0", "1", "2"]


def test_a_log_scale_has_powers_of_ten():
    scale = axes.fitting(numpy.array([1.0] * 50 + [2.0] * 50 + [3e4]))
    assert scale.name == "log scale"
    assert {"1", "10", "100", "1000", "10k"} <= {*axes.ticks(scale, 30, least_apart=1.5).values()}


def test_a_level_curve_and_a_single_point_are_drawn():
    for values in ([3.0], [3.0] * 5, [0.0, 0.0]):
        assert any(letter > "⠀" for row in drawn(line(values))[1:-2] for letter in row)


def test_places_are_marked_on_the_axis_and_above_it():
    found = chart("loss", [line([0.0] * 11)], "step", (40, 8), events=[5.0, 99.0])
    *canvas, axis, _ = [text.plain for text in found[1:]]
    at = axis.index("▲")
    assert axis.count("▲") == 1  # 99 is not on the axis
    assert abs(at - (axis.index("└") + 1 + len(axis) - 1) / 2) <= 2
    assert {row[at] for row in canvas if len(row) > at} <= {"┊", "⠤", "⠒", "⠉", "⣀"}
    plain = chart("loss", [line([0.0] * 11)], "step", (40, 8), events=[5.0], is_ascii=True)
    assert plain[-2].plain.count("^") == 1
