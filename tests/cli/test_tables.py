"""Tables keep what is there to be copied."""

import pytest

from trackside.cli.tables import Cell, print_table

NAME = "a" * 63
ROWS = [[Cell(NAME), Cell("Completed", "green"), Cell("s3://bucket/" + "x" * 80)]]
COLUMNS = ("NAME", "STATUS", "OUTPUT")


def test_only_the_last_column_gives_way_to_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    print_table(COLUMNS, ROWS)
    shown = capsys.readouterr().out
    assert NAME in shown
    assert "Completed" in shown
    assert "s3://bucket/xxxxxxx…" in shown
    assert len(shown.splitlines()) == 2


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
