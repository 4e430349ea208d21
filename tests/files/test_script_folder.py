"""What another user's script leaves in its folder leads nobody out of it."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from trackside.files.script_folder import NoPlainFile, ScriptFolder
from trackside.records.layout import HostFolder

OWNER = 65531
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def host(tmp_path: Path) -> HostFolder:
    """One whose /opt/ml belongs to another user, and beside it what is kept from that user."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "secret").write_text("secret")
    host = HostFolder(tmp_path / "host")
    for name in ("model/deep", "output"):
        (host.ml / name).mkdir(parents=True)
    (host.ml / "model" / "deep" / "file").write_text("weights")
    give(host.ml)
    return host


def give(path: Path) -> None:
    if os.geteuid() == 0:
        for each in (path, *path.rglob("*")):
            os.chown(each, OWNER, OWNER, follow_symlinks=False)


@pytest.fixture
def ml(host: HostFolder) -> ScriptFolder:
    return host.script_folder(host.ml)


@needs_root
def test_what_is_plain_is_read_and_written(ml: ScriptFolder, tmp_path: Path) -> None:
    assert ml.read("model/deep/file", 100) == b"weights"
    assert ml.read("model/deep/file", 3) == b"wei"
    assert (ml / "model").is_dir()
    assert not (ml / "nothing").is_dir()
    ml.write("model/new", b"whole")
    assert ml.read("model/new", 100) == b"whole"
    part = tmp_path / "part"
    part.write_text("moved")
    ml.take(part, "model/made/here/part")
    assert ml.read("model/made/here/part", 100) == b"moved"
    made = ml.path / "model" / "made" / "here"
    assert {each.stat().st_uid for each in (ml.path / "model" / "new", made, made.parent)} == {
        OWNER
    }
    with ml.entries("model") as entries:
        assert sorted(entry.name for entry in entries) == ["deep", "made", "new"]
    ml.unlink("model/new")
    ml.remove_tree("model/made")
    ml.remove_tree("model/nothing")
    assert os.listdir(ml.path / "model") == ["deep"]


ACTIONS: dict[str, Callable[[ScriptFolder, str, Path], object]] = {
    "read": lambda ml, way, part: ml.read(f"{way}/secret", 100),
    "open": lambda ml, way, part: ml.open(f"{way}/new", os.O_WRONLY | os.O_CREAT),
    "lstat": lambda ml, way, part: ml.lstat(f"{way}/secret"),
    "write": lambda ml, way, part: ml.write(f"{way}/secret", b"changed"),
    "take": lambda ml, way, part: ml.take(part, f"{way}/below/secret"),
    "unlink": lambda ml, way, part: ml.unlink(f"{way}/secret"),
    "entries": lambda ml, way, part: ml.entries(way).__enter__(),
    "folder": lambda ml, way, part: (ml / way).read("secret", 100),
}


@needs_root
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("way", ["model", "model/deep"])
def test_a_link_on_the_way_is_not_followed(
    host: HostFolder, ml: ScriptFolder, tmp_path: Path, action: str, way: str
) -> None:
    (host.ml / way).rename(host.ml / "moved")
    (host.ml / way).symlink_to(tmp_path / "kept")
    give(host.ml)
    part = tmp_path / "part"
    part.touch()
    with pytest.raises(NotADirectoryError):
        ACTIONS[action](ml, way, part)
    ml.remove_tree(f"{way}/secret")
    assert not (ml / way).is_dir()
    assert os.listdir(tmp_path / "kept") == ["secret"]
    assert (tmp_path / "kept" / "secret").read_text() == "secret"


@needs_root
def test_a_link_in_a_file_s_place_is_not_followed_and_is_replaced(
    host: HostFolder, ml: ScriptFolder, tmp_path: Path
) -> None:
    secret = tmp_path / "kept" / "secret"
    (host.ml / "output" / "failure").symlink_to(secret)
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_CREAT):
        with pytest.raises(NoPlainFile) as refused:
            ml.open("output/failure", flags)
        assert refused.value.errno == errno.ELOOP
    ml.write("output/failure", b"ours")
    assert secret.read_text() == "secret"
    assert not (host.ml / "output" / "failure").is_symlink()
    (host.ml / "dangling").symlink_to(tmp_path / "made")
    with pytest.raises(NoPlainFile):
        ml.open("dangling", os.O_WRONLY | os.O_CREAT)
    assert not (tmp_path / "made").exists()


@needs_root
def test_a_temporary_name_that_the_script_guessed_leads_nowhere(
    host: HostFolder, ml: ScriptFolder, tmp_path: Path
) -> None:
    secret = tmp_path / "kept" / "secret"
    (host.ml / "output" / f".config.{os.getpid()}.part").symlink_to(secret)
    ml.write("output/config", b"ours")
    assert secret.read_text() == "secret"
    assert ml.read("output/config", 100) == b"ours"


@needs_root
def test_neither_a_pipe_nor_a_folder_nor_a_device_is_opened(
    host: HostFolder, ml: ScriptFolder
) -> None:
    os.mkfifo(host.ml / "pipe")
    os.mknod(host.ml / "zero", 0o600 | 0o020000, os.makedev(1, 5))
    for name in ("pipe", "zero", "model"):
        with pytest.raises(NoPlainFile):
            ml.open(name)
    with pytest.raises(NoPlainFile):
        ml.open("pipe", os.O_WRONLY)


@needs_root
def test_a_file_of_a_third_user_or_with_a_second_name_is_left_alone(
    host: HostFolder, ml: ScriptFolder, tmp_path: Path
) -> None:
    (host.ml / "third").write_text("x")
    os.chown(host.ml / "third", OWNER + 1, -1)
    os.link(tmp_path / "kept" / "secret", host.ml / "linked")
    for name in ("third", "linked"):
        with pytest.raises(PermissionError):
            ml.open(name)
    (host.ml / "put there by us").write_text("x")
    assert ml.read("put there by us", 10) == b"x"


@needs_root
def test_a_link_out_of_the_job_s_own_folders_ends_there_too(
    host: HostFolder, tmp_path: Path
) -> None:
    host.mounts.symlink_to(tmp_path / "kept")
    with pytest.raises(NotADirectoryError):
        host.script_folder(host.mounts).read("secret", 100)


def test_in_a_folder_of_our_own_the_top_may_be_a_link(tmp_path: Path) -> None:
    host = HostFolder(tmp_path / "host")
    host.ml.mkdir(parents=True)
    (tmp_path / "scratch" / "deep").mkdir(parents=True)
    (tmp_path / "scratch" / "file").write_text("weights")
    (host.ml / "model").symlink_to(tmp_path / "scratch")
    model = host.script_folder(host.ml / "model")
    assert model.is_dir()
    assert model.read("file", 100) == b"weights"
    model.take(model.path / "file", "new/file")
    assert (tmp_path / "scratch" / "new" / "file").exists()


def test_folders_nested_without_end_are_not_walked_without_end(tmp_path: Path) -> None:
    folder = ScriptFolder(tmp_path)
    with pytest.raises(OSError, match="File name too long"):
        folder.open("a/" * 3000 + "file")


def test_names_without_a_place_raise_as_anywhere(tmp_path: Path) -> None:
    folder = ScriptFolder(tmp_path)
    with pytest.raises(FileNotFoundError):
        folder.open("nothing/file")
    with pytest.raises(FileNotFoundError):
        folder.open("file")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        folder.open("file/below")
