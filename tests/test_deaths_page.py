"""docs/deaths.md: every cause in every place is tested, or it is said why it cannot be."""

import re
from pathlib import Path

from trackside.records.death import Cause

ROOT = Path(__file__).parent.parent
PLACES = ["process", "Docker", "Ray", "Slurm", "Kubernetes"]
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def rows() -> dict[str, dict[str, str]]:
    """By cause and place."""
    text = (ROOT / "docs" / "deaths.md").read_text()
    _, _, table = text.partition(f"| cause | {' | '.join(PLACES)} |\n")
    found = {}
    for line in table.splitlines()[1:]:
        if not line.startswith("|"):
            break
        cause, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        found[cause.strip("`")] = dict(zip(PLACES, cells, strict=True))
    return found


def test_every_cause_is_there_for_every_place():
    assert [*rows()] == [*map(str, Cause)]


def test_each_cell_names_a_test_or_says_why_there_is_none():
    for cause, cells in rows().items():
        for place, cell in cells.items():
            is_excused = cell.startswith("cannot occur: ")
            assert is_excused or TEST.search(cell), (cause, place, cell)


def test_the_tests_that_it_names_are_there():
    for cells in rows().values():
        for file, name in TEST.findall(" ".join(cells.values())):
            text = (ROOT / "tests" / file).read_text()
            assert re.search(rf"^def {name}\(|import\b[^#]*? as {name}\b", text, re.M), (file, name)


def test_the_causes_are_defined_in_their_order():
    text = (ROOT / "docs" / "deaths.md").read_text()
    _, _, table = text.partition("| cause | it is | it is not |\n")
    assert re.findall(r"^\| `(\w+)` \|", table, re.M)[: len(Cause)] == [*map(str, Cause)]
