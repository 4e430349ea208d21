"""Line diffs between the code of two jobs."""

import random
from hashlib import sha256

import pytest

from trackside.views.job_setup import code_diff
from trackside.views.job_setup.code_diff import FileDiff, Hunk, diff_of
from trackside.views.job_setup.code_files import CodeContent, CodeFile, as_text


def code(**files: str | bytes) -> dict[str, CodeContent]:
    """`train_py` stands for train.py."""
    found = {}
    for name, content in files.items():
        path, data = name.replace("_", "."), content if isinstance(content, bytes) else b""
        data = data or str(content).encode()
        text = as_text(CodeFile(path, len(data)), data)
        found[path] = CodeContent(text, sha256(data).hexdigest())
    return found


def numbered(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(1, count + 1))


def test_files_are_added_removed_and_changed():
    before = code(same_py="1\n", gone_py="a\n", train_py="lr = 1\n")
    after = code(same_py="1\n", new_py="b\nc\n", train_py="lr = 2\n")
    assert diff_of(before, after) == [
        FileDiff("gone.py", "removed", (Hunk(1, 0, (("-", "a"),)),)),
        FileDiff("new.py", "added", (Hunk(0, 1, (("+", "b"), ("+", "c"))),)),
        FileDiff("train.py", "changed", (Hunk(1, 1, (("-", "lr = 1"), ("+", "lr = 2"))),)),
    ]


def test_changes_have_lines_around_them_and_those_far_apart_are_apart():
    old = numbered(40)
    new = old.replace("line 10\n", "ten\n").replace("line 30\n", "").replace("line 12\n", "12\n")
    [file] = diff_of(code(a_py=old), code(a_py=new))
    first, second = file.hunks
    assert (first.old, first.new, second.old, second.new) == (7, 7, 27, 27)
    assert first.lines[:3] == ((" ", "line 7"), (" ", "line 8"), (" ", "line 9"))
    assert first.lines[3:5] == (("-", "line 10"), ("+", "ten"))
    assert first.lines[-3:] == ((" ", "line 13"), (" ", "line 14"), (" ", "line 15"))
    assert [line for line in second.lines if line[0] != " "] == [("-", "line 30")]


def test_lines_put_together_again_are_the_new_file():
    generator = random.Random(5)
    for _ in range(200):
        old = [generator.choice("abcd") for _ in range(generator.randrange(30))]
        new = [generator.choice("abcd") for _ in range(generator.randrange(30))]
        files = diff_of(code(x_py="\n".join(old)), code(x_py="\n".join(new)))
        assert patched(old, files) == new or old == new


def patched(old: list[str], files: list[FileDiff]) -> list[str]:
    made: list[str] = []
    at = 0
    for hunk in files[0].hunks if files else ():
        start = max(0, hunk.old - 1)
        made += old[at:start]
        assert len(made) == max(0, hunk.new - 1)
        at = start
        for sign, text in hunk.lines:
            if sign != "+":
                assert old[at] == text
                at += 1
            if sign != "-":
                made.append(text)
    return made + old[at:]


def test_binary_files_are_named_only():
    [file] = diff_of(code(model_pt=b"\0\1"), code(model_pt=b"\0\2"))
    assert (file.path, file.status, file.hunks) == ("model.pt", "changed", ())


def test_a_secret_that_changed_is_a_change_without_its_text():
    before, after = code(a_py="API_KEY = 'first'\n"), code(a_py="API_KEY = 'second'\n")
    [file] = diff_of(before, after)
    assert file.status == "changed"
    assert "second" not in str(file)


@pytest.mark.timeout(100)
def test_files_that_take_long_to_compare_are_shown_as_replaced():
    generator = random.Random(5)
    old, new = ("".join(generator.choice("ab") + "\n" for _ in range(20_000)) for _ in range(2))
    [file] = diff_of(code(a_py=old), code(a_py=new))
    [hunk] = file.hunks
    assert len(hunk.lines) == code_diff.MOST_LINES


@pytest.mark.timeout(100)
def test_one_changed_line_among_very_many_equal_ones_is_found():
    lines = [""] * 60_000
    old = "\n".join([*lines, "a", *lines])
    new = "\n".join([*lines, "b", *lines])
    [file] = diff_of(code(a_py=old), code(a_py=new))
    [hunk] = file.hunks
    assert (hunk.old, len(hunk.lines)) == (59_998, 8)


def test_of_very_many_files_all_are_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(code_diff, "MOST_FILES", 2)
    after = {path: each for n in range(5) for path, each in code(**{f"f{n}_py": "x\n"}).items()}
    files = diff_of({}, after)
    assert [bool(file.hunks) for file in files] == [True, True, False, False, False]
