"""Which disk is to blame, on real file systems that are full or read-only."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackside.files.disk_failure import disk_failure
from trackside.files.disk_space import space_of

NO_SPACE = "OSError: [Errno 28] No space left on device"
TORCH = "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small disk"
    place.mkdir()
    options = "size=128k,nr_inodes=8"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(place: Path) -> None:
    with (place / "big").open("wb", buffering=0) as file:
        while os.statvfs(place).f_bavail:
            file.write(bytes(4096))


@needs_root
@pytest.mark.parametrize("output", [NO_SPACE, TORCH, "ValueError: of another kind"])
def test_a_folder_on_a_full_disk_is_named_with_what_is_free(
    small: Path, tmp_path: Path, output: str
):
    folders = [str(tmp_path), str(small)]
    assert f"{str(small)!r} is full" not in disk_failure(output, folders)
    fill(small)
    assert disk_failure(output, folders) == (
        f"The disk of {str(small)!r} is full, 0 B of 131.1 kB are free. Free some space there, or "
        "use a folder on a larger disk"
    )
    reported = disk_failure(output, folders, in_home=str(tmp_path))
    assert reported.endswith("or set TRACKSIDE_HOME to a folder on a larger disk")


@needs_root
def test_of_several_folders_on_a_full_disk_the_one_in_the_message_is_named(small: Path):
    folders = [small / "model", small / "output"]
    for folder in folders:
        folder.mkdir()
    fill(small)
    output = f"RuntimeError: {folders[1]}/x.pt: iostream error"
    reported = disk_failure(output, [str(folder) for folder in folders])
    assert reported.startswith(f"The disk of {str(folders[1])!r} is full")


@needs_root
def test_a_full_disk_that_is_not_named_is_found_when_the_output_means_one(
    small: Path, tmp_path: Path
):
    fill(small)
    assert str(small) in disk_failure(TORCH, [str(tmp_path)])
    assert disk_failure("ValueError: of another kind", [str(tmp_path)]) == ""


@needs_root
def test_a_disk_without_room_for_another_file_is_full(small: Path):
    while os.statvfs(small).f_favail:
        (small / str(os.statvfs(small).f_favail)).touch()
    assert "it has no space for another file" in disk_failure("", [str(small)])


def test_the_disk_of_the_file_in_the_message_is_named_though_it_has_space_again(tmp_path: Path):
    output = f"{NO_SPACE}: '{tmp_path}/run 1/deep/model.pt'"
    reported = disk_failure(output, ["/"])
    assert reported.startswith(f"A disk was full; that of {str(tmp_path)!r} has ")
    assert reported.endswith(" free now")


def test_ambiguous_messages_are_not_taken_for_a_full_disk(tmp_path: Path):
    space = space_of(str(tmp_path))
    assert space is not None
    assert not space.is_full
    assert disk_failure("ValueError: no", [str(tmp_path)]) == ""


@needs_root
def test_a_read_only_file_system_is_named_and_is_not_full(small: Path):
    fill(small)
    (small / "big").unlink()
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    with pytest.raises(OSError, match="Read-only") as refused:
        (small / "model.pt").touch()
    assert disk_failure(f"OSError: {refused.value}", [str(small)]) == (
        f"{str(small)!r} is on a read-only file system; write below /opt/ml/model or "
        "/opt/ml/output/data"
    )
    assert disk_failure("ValueError: no", [str(small)]) == ""


def test_a_quota_is_reported(tmp_path: Path):
    output = f"OSError: [Errno 122] Disk quota exceeded: '{tmp_path}/x'"
    assert disk_failure(output, []).startswith(f"The disk quota of {str(tmp_path)!r} is used up")
    assert disk_failure("cp: Disk quota exceeded", []).startswith("The disk quota is used up")


def test_a_folder_that_is_not_there_has_no_space(tmp_path: Path):
    assert space_of(str(tmp_path / "none")) is None
    assert space_of("/proc") is None
