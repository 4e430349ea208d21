"""Modes of what we make, under any umask."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackside.files import durable, permissions
from trackside.files.permissions import (
    close_to_others,
    close_tree_to_others,
    make_folder,
    open_file,
)
from trackside.records.journal import Journal
from trackside.records.layout import Home
from trackside.storage.folder import FolderStore
from trackside.storage.locate import locate


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_folders_are_the_owner_s_alone_with_all_that_were_missing_above(tmp_path: Path, umask: int):
    tmp_path.chmod(0o755)
    make_folder(tmp_path / "a" / "b" / "c")
    make_folder(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/c")] == [0o700] * 3
    assert mode(tmp_path) == 0o755


def test_a_folder_is_not_made_in_place_of_a_file(tmp_path: Path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises((FileExistsError, NotADirectoryError)):
            make_folder(path)


def test_every_file_that_others_are_to_find_whole_is_private(tmp_path: Path, umask: int):
    durable.write_bytes(tmp_path / "written", b"")
    durable.write_json(tmp_path / "json", {})
    durable.create(tmp_path / "created", b"")
    durable.append_lines(tmp_path / "appended", b"line\n")
    Journal(tmp_path / "journal").open()
    assert {mode(path) for path in tmp_path.iterdir() if path.is_file()} == {0o600}
    durable.write_bytes(tmp_path / "by umask", b"", mode=permissions.BY_UMASK)
    assert mode(tmp_path / "by umask") == 0o666 & ~umask


def test_embedded_buckets_are_private_and_other_places_are_as_the_umask_has_it(
    tmp_path: Path, umask: int
):
    home = tmp_path / "home"
    for place in ("s3://bucket/folder", (home / "buckets" / "other").as_uri()):
        location = locate(place, home=home).child("object")
        location.store.put(location.key, b"x")
    assert {mode(path) for path in home.rglob("*") if path.is_dir()} == {0o700}
    assert {mode(path) for path in home.rglob("*") if path.is_file()} == {0o600}
    location = locate(tmp_path / "elsewhere" / "deep", home=home).child("object")
    location.store.put(location.key, b"x")
    assert mode(tmp_path / "elsewhere") == mode(tmp_path / "elsewhere/deep") == 0o777 & ~umask
    assert mode(tmp_path / "elsewhere/deep/object") == 0o666 & ~umask


OURS = """
import os, sys
from pathlib import Path
from trackside.files.permissions import keep_private
from trackside.storage.folder import FolderStore

given = keep_private(*sys.argv[2:])
folder = Path(sys.argv[1])
(folder / "own").touch()
FolderStore(folder / "user" / "deep").put("object", b"x")
FolderStore(folder / "home", is_private=True).put("object", b"x")
print(given)
"""


@pytest.mark.parametrize(
    ("umask", "arguments", "user"), [(0o027, [], 0o027), (0o077, ["002"], 0o002)]
)
def test_a_process_of_ours_makes_private_files_and_knows_the_user_s_umask(
    tmp_path: Path, umask: int, arguments: list[str], user: int
):
    done = subprocess.run(
        [sys.executable, "-c", OURS, tmp_path, *arguments],
        umask=umask,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout, 8) == user
    assert mode(tmp_path / "own") == mode(tmp_path / "home" / "object") == 0o600
    assert mode(tmp_path / "home") == 0o700
    assert mode(tmp_path / "user") == mode(tmp_path / "user" / "deep") == 0o777 & ~user
    assert mode(tmp_path / "user" / "deep" / "object") == 0o666 & ~user


COMMAND = """
import sys
from trackside.records.finding import Finding
from trackside.files.permissions import keep_private
from trackside.rules.action.actions import Command
from trackside.rules.action.deliveries import run_command

keep_private()
found = Finding(rule="r", step=1, tensor="t", message="m")
print(run_command(Command(command=f"touch '{sys.argv[1]}/made'"), "job", found))
"""


def test_a_command_of_a_rule_makes_files_with_the_user_s_umask(tmp_path: Path):
    subprocess.run([sys.executable, "-c", COMMAND, tmp_path], umask=0o002, check=True)
    assert mode(tmp_path / "made") == 0o664


def test_the_umask_of_the_user_s_process_is_never_changed(tmp_path: Path, umask: int):
    FolderStore(tmp_path / "bucket", is_private=True).put("a/b", b"x")
    os.close(open_file(tmp_path / "file", os.O_CREAT | os.O_WRONLY))
    (tmp_path / "own").touch()
    assert mode(tmp_path / "own") == 0o666 & ~umask


def test_only_rights_of_others_are_taken_away(tmp_path: Path):
    for name, before, after in (("a", 0o755, 0o700), ("b", 0o644, 0o600), ("c", 0o2575, 0o2500)):
        path = tmp_path / name
        path.mkdir()
        path.chmod(before)
        assert close_to_others(path) == before
        assert mode(path) == after
        assert close_to_others(path) is None
    assert close_to_others(tmp_path / "missing") is None


def test_a_folder_that_is_everybody_s_on_purpose_stays_so(tmp_path: Path):
    tmp_path.chmod(0o1777)
    assert Home(tmp_path).close_to_others() is None
    assert mode(tmp_path) == 0o1777


def test_a_folder_with_more_than_trackside_s_home_keeps_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    home = Home(tmp_path)
    home.jobs.mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    assert home.close_to_others() is None
    assert (mode(tmp_path), mode(home.jobs)) == (0o755, 0o700)
    (tmp_path / "file").touch(0o644)
    assert Home(tmp_path / "file").close_to_others() is None


def test_a_home_of_another_user_is_not_changed_and_is_used(tmp_path: Path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(tmp_path, 65534, 65534)
    tmp_path.chmod(0o755)
    make_folder(tmp_path / "jobs")
    (tmp_path / "jobs").chmod(0o755)
    assert Home(tmp_path).close_to_others() is None
    assert (mode(tmp_path), mode(tmp_path / "jobs")) == (0o755, 0o700)


def test_a_place_that_the_user_linked_into_the_home_keeps_its_mode(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o755)
    home = Home(tmp_path / "home")
    make_folder(home.root)
    home.buckets.symlink_to(elsewhere)
    assert home.close_to_others() is None
    assert mode(elsewhere) == 0o755


def test_a_tree_is_closed_to_its_leaves_but_not_through_links(tmp_path: Path):
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    (tree / "folder").mkdir(parents=True)
    (tree / "folder" / "program").touch()
    (tree / "folder" / "program").chmod(0o755)
    outside.touch()
    outside.chmod(0o644)
    (tree / "link").symlink_to(outside)
    close_tree_to_others(tree)
    assert mode(tree) == mode(tree / "folder") == mode(tree / "folder" / "program") == 0o700
    assert mode(outside) == 0o644
