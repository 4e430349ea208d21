"""A container's figures from its control groups: version 1, version 2, and after its end."""

import os
import shutil
from pathlib import Path

import pytest

from trackside.supervisor.container_figures import ContainerReader
from trackside.supervisor.machine_reading import TICKS_PER_SECOND
from trackside.system import control_group

MIB = 1 << 20
SECOND_NS = 1_000_000_000


def reader(
    monkeypatch: pytest.MonkeyPatch, folder: Path, controllers: tuple[str, ...], **files: str
) -> ContainerReader:
    folder.mkdir()
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    monkeypatch.setattr(
        control_group, "groups_of", lambda pid: dict.fromkeys(controllers, str(folder))
    )
    return ContainerReader(os.getpid())


def test_version_2_with_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "group"
    made = reader(
        monkeypatch,
        folder,
        ("", "cpu", "memory", "io"),
        cpu__max="150000 100000\n",
        cpu__stat="usage_usec 6000000\nuser_usec 1\n",
        memory__current=str(300 * MIB),
        memory__max=str(512 * MIB),
        memory__stat=f"anon 5\ninactive_file {100 * MIB}\n",
        memory__swap__current="4096\n",
        io__stat="8:0 rbytes=10 wbytes=20 rios=1\n8:16 rbytes=1 wbytes=2\n",
    )
    if (os.cpu_count() or 1) < 2:
        pytest.skip("1.5 cores of a machine with two")
    reading = made.read()
    assert len(reading.cores) == 2
    assert [core.busy for core in reading.cores] == [3 * TICKS_PER_SECOND] * 2
    assert reading.memory_bytes == 512 * MIB
    assert reading.memory_bytes - reading.memory_available_bytes == 200 * MIB
    assert reading.swap_used_bytes == 4096
    assert (reading.disk_read_bytes, reading.disk_written_bytes) == (11, 22)
    shutil.rmtree(folder)  # as at the container's end
    after = made.read()
    assert after.cores[0].busy == 3 * TICKS_PER_SECOND
    assert after.disk_written_bytes == 22
    made.close()


def test_version_1_without_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    num_cores = os.cpu_count() or 1
    each = " ".join(str(number * SECOND_NS) for number in range(1, num_cores + 1))
    made = reader(
        monkeypatch,
        tmp_path / "group",
        ("cpu", "cpuacct", "memory", "blkio"),
        cpu__cfs_quota_us="-1\n",
        cpu__cfs_period_us="100000\n",
        cpuacct__usage_percpu=f"{each} \n",
        memory__usage_in_bytes=str(300 * MIB),
        memory__limit_in_bytes="9223372036854771712\n",
        memory__stat=f"total_inactive_file {100 * MIB}\ntotal_swap 7\n",
        blkio__throttle__io_service_bytes="8:0 Read 5\n8:0 Write 6\n8:0 Total 11\nTotal 11\n",
    )
    reading = made.read()
    busy = [core.busy for core in reading.cores]
    assert busy == [number * TICKS_PER_SECOND for number in range(1, num_cores + 1)]
    assert reading.memory_bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert reading.memory_bytes - reading.memory_available_bytes == 200 * MIB
    assert (reading.swap_used_bytes, reading.disk_read_bytes, reading.disk_written_bytes) == (
        7,
        5,
        6,
    )
    made.close()


def test_the_groups_of_a_process_are_folders() -> None:
    found = control_group.groups_of(os.getpid())
    assert all(os.path.isdir(folder) for folder in found.values())
    assert control_group.groups_of(1 << 30) == {}
