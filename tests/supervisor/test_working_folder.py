"""Which files of a working folder are the script's own, and which of those are kept."""

import os
from pathlib import Path

import pytest

from trackside.files.script_folder import ScriptFolder
from trackside.supervisor import working_folder
from trackside.supervisor.working_folder import WorkingFolder, read_baseline, take_baseline


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "data").mkdir(parents=True)
    (folder / "train.py").write_text("source")
    (folder / "data/in.csv").write_text("1")
    (folder / "link").symlink_to("train.py")
    return folder


def watched(code: Path, most_bytes: float = 1e9, apart: tuple[str, ...] = ()) -> WorkingFolder:
    path = code.parent / "baseline.json"
    take_baseline(ScriptFolder(code), path)
    baseline = read_baseline(path)
    assert baseline is not None
    return WorkingFolder(ScriptFolder(code), baseline, most_bytes=most_bytes, apart=apart)


def write(path: Path, num_bytes: int = 1, age: float = 0.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(num_bytes))
    os.utime(path, (1e9 - age, 1e9 - age))


def test_the_source_is_not_the_script_s_and_what_it_changes_is(code: Path) -> None:
    folder = watched(code)
    assert folder.made({}) == {}
    assert folder.left_out(()) == []
    (code / "data/in.csv").write_text("2")
    (code / "train.py").chmod(0o755)  # as the toolkit does, and nothing was written
    assert folder.made({}).keys() == {"data/in.csv"}


def test_a_source_file_that_was_replaced_by_one_of_the_same_time_and_size_is_kept(
    code: Path,
) -> None:
    folder = watched(code)
    there = (code / "train.py").stat()
    (code / "new").write_text("sOuRcE")
    os.utime(code / "new", ns=(there.st_mtime_ns,) * 2)
    (code / "new").replace(code / "train.py")
    assert folder.made({}).keys() == {"train.py"}


def test_folders_that_go_elsewhere_are_left_alone(code: Path) -> None:
    folder = watched(code, apart=("ckpt/all", "/opt/ml/output/tensorboard"))
    write(code / "ckpt/all/1.pt")
    write(code / "ckpt/2.pt")
    assert folder.made({}).keys() == {"ckpt/2.pt"}
    assert folder.left_out(()) == []


def test_the_newest_come_first_and_leave_room_for_small_ones(code: Path) -> None:
    folder = watched(code, most_bytes=100)
    write(code / "last.pt", 60, age=1)
    write(code / "best.pt", 60, age=2)
    write(code / "config", 40, age=3)
    write(code / "runs/events.out.tfevents.1.host", 500, age=4)
    made = folder.made({})
    assert folder.within_limit(made).keys() == {"last.pt", "config"}
    assert folder.events().keys() == {"runs/events.out.tfevents.1.host"}
    [beyond] = folder.left_out(())
    assert (beyond.num_files, beyond.size_bytes, beyond.example) == (1, 60, "best.pt")


def test_a_data_set_of_many_files_is_not_kept_whole(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working_folder, "MOST_FILES", 3)
    folder = watched(code)
    for number in range(5):
        write(code / f"{number}.png", age=number)
    assert folder.within_limit(folder.made({})).keys() == {"0.png", "1.png", "2.png"}


def test_an_ignore_file_that_is_a_link_is_not_read(code: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("*")
    (code / ".tracksideignore").symlink_to(tmp_path / "elsewhere")
    folder = watched(code)
    write(code / "model.pt")
    assert folder.made({}).keys() == {"model.pt"}


def test_a_baseline_that_is_not_there_or_damaged_is_none(tmp_path: Path) -> None:
    assert read_baseline(tmp_path / "none") is None
    (tmp_path / "damaged").write_text('{"files": 3}')
    assert read_baseline(tmp_path / "damaged") is None


def test_in_a_user_s_folder_ignored_folders_are_not_scanned(code: Path) -> None:
    (code / ".tracksideignore").write_text("data/\n!.cache/\n")
    write(code / ".venv/lib/module.py")
    write(code / ".cache/model.bin")
    path = code.parent / "baseline.json"
    take_baseline(ScriptFolder(code), path, in_place=True)
    baseline = read_baseline(path)
    assert baseline is not None
    assert baseline.files.keys() == {".tracksideignore", "train.py", ".cache/model.bin"}
    folder = WorkingFolder(ScriptFolder(code), baseline, most_bytes=1e9, in_place=True)
    assert folder.made({}) == {}
    assert folder.left_out(()) == []
    write(code / "data/new.csv")
    write(code / "out.csv")
    assert folder.made({}).keys() == {"out.csv"}
    assert folder.left_out(()) == []


def test_links_that_are_ignored_are_not_counted(code: Path) -> None:
    """wandb makes some; what they lead to is kept under its own name."""
    folder = watched(code)
    write(code / "wandb/run-1/logs/debug.log")
    (code / "wandb/latest-run").symlink_to("run-1")
    (code / "wandb/debug.log").symlink_to("run-1/logs/debug.log")
    assert [*folder.made({})] == ["wandb/run-1/logs/debug.log"]
    assert folder.left_out(()) == []
    (code / "best.pt").symlink_to("model.pt")
    [left] = folder.left_out(())
    assert (left.num_files, left.example) == (1, "best.pt")
