"""A damaged file is left out, and said once."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from trackside.files import damaged_files


@dataclass(frozen=True, slots=True)
class Kept:
    name: str


def test_a_record_is_read_from_its_file(tmp_path: Path):
    path = tmp_path / "kept.json"
    assert damaged_files.read(Kept, path) is None
    assert damaged_files.read_object(path) is None
    path.write_text('{"name": "a", "more": 1}')
    assert damaged_files.read(Kept, path) == Kept("a")
    assert damaged_files.read_object(path) == {"name": "a", "more": 1}


@pytest.mark.parametrize("content", ["[1]", '{"name": 5}', '{"na'])
def test_a_damaged_one_is_none_and_logged_once(tmp_path: Path, caplog, content: str):
    path = tmp_path / "kept.json"
    path.write_text(content)
    for _ in range(3):
        assert damaged_files.read(Kept, path) is None
    (said,) = caplog.messages
    assert said.startswith(f"{path} is damaged: ")
    assert said.endswith("; it is left out.")


@pytest.mark.parametrize(
    ("number", "said"), [(1, "1 damaged line was"), (2_000, "2,000 damaged lines were")]
)
def test_numbers_are_written_with_their_unit(number: int, said: str):
    assert damaged_files.counted(number, "line") == said
