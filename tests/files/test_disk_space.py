"""A disk that takes nothing is told from one that does, whatever the reason."""

import errno
import subprocess
from pathlib import Path

import pytest

from tests.small_disk import broken_disk, fill, small_disk
from trackside.files import disk_space


def test_a_disk_with_space_has_no_problem(tmp_path: Path):
    assert disk_space.trouble(tmp_path) == ""


def test_a_full_disk_is_named_by_the_folder(tmp_path: Path):
    with small_disk(tmp_path / "disk") as disk:
        fill(disk)
        expected = f"Disk full: the disk of {str(disk)!r} has no space left."
        assert disk_space.trouble(disk) == expected
        (disk / "filler").unlink()
        assert disk_space.trouble(disk) == ""


def test_a_disk_without_inodes_is_full(tmp_path: Path):
    with small_disk(tmp_path / "disk", "1m,nr_inodes=10") as disk:
        for number in range(9):  # the root has one
            (disk / str(number)).touch()
        with pytest.raises(OSError, match="No space left") as refused:
            (disk / "one more").touch()
        assert disk_space.is_full(refused.value)
        assert "no inodes left" in disk_space.trouble(disk)


def test_a_read_only_disk_takes_nothing(tmp_path: Path):
    with small_disk(tmp_path / "disk") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(OSError, match="Read-only") as refused:
            (disk / "new").touch()
        assert disk_space.takes_nothing(refused.value)
        assert not disk_space.is_full(refused.value)
        assert disk_space.trouble(disk) == f"The disk of {str(disk)!r} is read-only."


def test_a_disk_that_an_error_has_made_read_only_takes_nothing(tmp_path: Path):
    """Kernels differ in whether such a mount still calls itself writable."""
    with broken_disk(tmp_path / "disk") as disk:
        with pytest.raises(OSError, match="Read-only"):
            (disk / "new").touch()
        assert disk_space.trouble(disk) == f"The disk of {str(disk)!r} is read-only."
    assert disk_space.trouble(tmp_path) == ""


def test_a_folder_that_is_gone_is_no_problem_of_the_disk(tmp_path: Path):
    assert disk_space.trouble(tmp_path / "gone") == ""


def test_other_errors_are_not_the_disks():
    assert not disk_space.takes_nothing(OSError(errno.EACCES, "no"))
    assert not disk_space.takes_nothing(ValueError())
