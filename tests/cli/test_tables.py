"""Tables keep what is there to be copied."""

import re

import pytest

from trackside.cli.tables import Cell, print_side_by_side, print_table, together

NAME = "a" * 63
ROWS = [[Cell(NAME), Cell("Completed", "green"), Cell("s3://bucket/" + "x" * 80)]]
COLUMNS = ("NAME", "STATUS", "OUTPUT")


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")


def drawn(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out).splitlines()


@pytest.mark.usefixtures("narrow")
def test_a_long_name_gets_a_line_of_its_own(capsys: pytest.CaptureFixture[str]):
    print_table(COLUMNS, ROWS)
    assert drawn(capsys) == [
        "NAME",
        "    STATUS     OUTPUT",
        NAME,
        f"    Completed  s3://bucket/{'x' * 80}",  # whole, so that it can be copied
    ]


@pytest.mark.usefixtures("narrow")
def test_a_column_that_can_be_spared_gives_way_first(capsys: pytest.CaptureFixture[str]):
    rows = [[Cell("a" * 40), Cell("Completed"), Cell("s3://bucket/out/here")]]
    print_table(COLUMNS, rows, spare=("OUTPUT", "STATUS"))
    assert drawn(capsys)[1] == f"{'a' * 40}  Completed"


@pytest.mark.usefixtures("narrow")
def test_the_last_column_goes_on_below_itself(capsys: pytest.CaptureFixture[str]):
    print_table(("NAME", "WHY"), [[Cell("a" * 30), Cell("it waits for the memory of two others")]])
    assert drawn(capsys)[1:] == [
        f"{'a' * 30}  it waits for the memory of",
        f"{' ' * 30}  two others",
    ]


@pytest.mark.usefixtures("narrow")
def test_what_can_be_drawn_anew_is_drawn_narrower(capsys: pytest.CaptureFixture[str]):
    row = [Cell("a" * 35), Cell("#" * 32, at_width=lambda width: "#" * width)]
    print_table(("NAME", "CURVE"), [row])
    assert drawn(capsys)[1] == f"{'a' * 35}  {'#' * 23}"


@pytest.mark.usefixtures("narrow")
def test_columns_side_by_side_share_the_room(capsys: pytest.CaptureFixture[str]):
    figures = f"{together('652.7 kB/s')} ({together('12.5 MB/s')})"
    names = ("", *(f"train-2026-11-16-{number}" for number in "abc"))
    print_side_by_side(names, [[Cell("disk"), *([Cell(figures)] * 3)]])
    assert drawn(capsys) == [
        "      train-2026-11-    train-2026-11-    train-2026-11-",
        "      16-a              16-b              16-c",
        "disk  652.7 kB/s        652.7 kB/s        652.7 kB/s",
        "      (12.5 MB/s)       (12.5 MB/s)       (12.5 MB/s)",
    ]


@pytest.mark.usefixtures("narrow")
def test_more_columns_than_fit_go_on_in_a_table_below(capsys: pytest.CaptureFixture[str]):
    names = ("", *(f"job-number-{number}" for number in range(6)))
    print_side_by_side(names, [[Cell("loss"), *(Cell(f"0.{number}") for number in range(6))]])
    lines = drawn(capsys)
    assert max(map(len, lines)) <= 60
    assert lines[1] == "loss  0.0           0.1           0.2"
    assert lines[-1] == "loss  0.3           0.4           0.5"


def test_nothing_is_cut_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]):
    print_table(COLUMNS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"{NAME}  Completed  s3://bucket/{'x' * 80}"
    assert lines[0] == lines[0].rstrip()


def test_text_is_neither_markup_nor_escape(capsys: pytest.CaptureFixture[str]):
    print_table(("A",), [[Cell("[red]x[/red] :smile: \x1b[31m\n y")]])
    assert capsys.readouterr().out == "A\n[red]x[/red] :smile: \\x1b[31m y\n"


def test_numbers_end_below_each_other(capsys: pytest.CaptureFixture[str]):
    rows = [[Cell("a"), Cell("7"), Cell("x")], [Cell("b"), Cell("1200"), Cell("y")]]
    print_table(("NAME", "STEPS", "WHAT"), rows, numbers=("STEPS",))
    assert capsys.readouterr().out.splitlines() == [
        "NAME  STEPS  WHAT",
        "a         7  x",
        "b      1200  y",
    ]
