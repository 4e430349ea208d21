"""docs/storage.md tells the truth: its Python runs, in the order in which it is read."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "storage.md"


def test_the_code_on_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    assert (tmp_path / "input/data/train/train.csv").read_bytes() == b"1,2,3\n"
    assert capsys.readouterr().out.splitlines()[-1] == "1 6"
