import gzip
import hashlib
import io
import os
import socket
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackside.errors import ArchiveError
from trackside.files.archive import Clash, Source, pack, plan
from trackside.files.extract import extract


def open_archive(chunks: Iterator[bytes]) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(b"".join(chunks)), mode="r:gz")


def names(chunks: Iterator[bytes]) -> list[str]:
    with open_archive(chunks) as tar:
        return tar.getnames()


def content(chunks: Iterator[bytes], name: str) -> bytes:
    with open_archive(chunks) as tar:
        file = tar.extractfile(name)
        assert file is not None
        return file.read()


def make(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make(tmp_path / "model", {"b.bin": "weights", "a/config.json": "{}", "a.txt": "hello"})


def test_members_are_relative_to_the_folder_and_in_order(model: Path) -> None:
    (model / "empty").mkdir()
    assert names(pack([Source(model)])) == ["a", "a.txt", "a/config.json", "b.bin", "empty"]


def test_an_empty_folder_makes_a_valid_archive(tmp_path: Path) -> None:
    assert names(pack([Source(make(tmp_path / "model", {}))])) == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="no '.*/nowhere' to pack"):
        pack([Source(tmp_path / "nowhere")])


def test_a_single_file_keeps_its_name_and_a_folder_may_go_below_another(model: Path) -> None:
    entry = model.parent / "train.py"
    entry.write_text("print()")
    packed = names(pack([Source(entry), Source(model, into="lib")]))
    assert packed == ["lib/a", "lib/a.txt", "lib/a/config.json", "lib/b.bin", "train.py"]


def test_the_same_files_give_the_same_bytes(model: Path) -> None:
    first, second = (hashlib.sha256(b"".join(pack([Source(model)]))).digest() for _ in range(2))
    assert first == second


def test_gnu_tar_and_gzip_read_it(model: Path, tmp_path: Path) -> None:
    deep = model / ("x" * 90) / ("y" * 90) / ("z" * 90)
    deep.mkdir(parents=True)
    (deep / "Gewichte-\u00fc.bin").write_bytes(os.urandom(3 << 20))
    archive = tmp_path / "model.tar.gz"
    archive.write_bytes(b"".join(pack([Source(model)])))
    subprocess.run(["gzip", "--test", archive], check=True)
    (tmp_path / "out").mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", tmp_path / "out"], check=True)
    subprocess.run(["diff", "-r", model, tmp_path / "out"], check=True)


def test_what_was_packed_is_extracted_alike(model: Path, tmp_path: Path) -> None:
    (model / "run.sh").write_text("#!/bin/sh\n")
    (model / "run.sh").chmod(0o755)
    (model / "latest").symlink_to("a/config.json")
    os.utime(model / "b.bin", (1_600_000_000, 1_600_000_000))
    archive = tmp_path / "model.tar.gz"
    archive.write_bytes(b"".join(pack([Source(model)])))
    extract(archive, tmp_path / "out")
    subprocess.run(["diff", "-r", "--no-dereference", model, tmp_path / "out"], check=True)
    assert (tmp_path / "out/run.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "out/b.bin").stat().st_mtime == 1_600_000_000


def test_owner_and_set_id_bits_stay_behind(model: Path) -> None:
    (model / "b.bin").chmod(0o4755)
    with open_archive(pack([Source(model)])) as tar:
        member = tar.getmember("b.bin")
    assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
    assert member.mode == 0o755


@pytest.fixture
def hosts(tmp_path: Path) -> list[Source]:
    first = make(tmp_path / "one", {"same": "from 1", "only-1": "1", "d/x": "x1", "kind": "file"})
    second = make(tmp_path / "two", {"same": "from 2", "only-2": "2", "d/y": "y2", "kind/z": "z2"})
    return [Source(first, "algo-1"), Source(second, "algo-2")]


def test_the_model_of_the_later_host_wins(hosts: list[Source]) -> None:
    assert content(pack(hosts), "same") == b"from 2"
    assert names(pack(hosts)) == ["d", "d/x", "d/y", "kind", "kind/z", "only-1", "only-2", "same"]
    assert names(pack(hosts[::-1])) == ["d", "d/x", "d/y", "kind", "only-1", "only-2", "same"]


def test_output_that_clashes_goes_below_the_host_name(hosts: list[Source]) -> None:
    packed = b"".join(pack(hosts, clash=Clash.HOST_FOLDER))
    assert names(iter([packed])) == [
        "algo-2/kind",
        "algo-2/kind/z",
        "algo-2/same",
        "d",
        "d/x",
        "d/y",
        "kind",
        "only-1",
        "only-2",
        "same",
    ]
    assert content(iter([packed]), "same") == b"from 1"
    assert content(iter([packed]), "algo-2/same") == b"from 2"


def test_a_host_folder_that_is_taken_as_well_is_nested_further(hosts: list[Source]) -> None:
    make(hosts[0].path, {"algo-2/same": "mine"})
    planned = [member.name for member in plan(hosts, clash=Clash.HOST_FOLDER)]
    assert "algo-2/algo-2/same" in planned
    assert len(set(planned)) == len(planned)


def test_folders_may_be_nested_deeper_than_python_may_call(tmp_path: Path) -> None:
    model = make(tmp_path / "model", {})
    subprocess.run(["mkdir", "-p", os.path.join(model, *["d"] * 1100)], check=True)
    try:
        assert len(names(pack([Source(model)]))) == 1100
    finally:
        subprocess.run(["rm", "-r", model], check=True)  # shutil would not get down there


def test_sockets_and_pipes_are_left_out_with_a_warning(model: Path) -> None:
    os.mkfifo(model / "pipe")
    reported: list[str] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(model / "socket"))
        packed = names(pack([Source(model)], warn=reported.append))
    assert packed == ["a", "a.txt", "a/config.json", "b.bin"]
    assert [text for text in reported if "/pipe'" in text]
    assert [text for text in reported if "/socket'" in text]
    assert len(reported) == 2


def test_links_are_kept_only_when_they_stay_inside(model: Path) -> None:
    (model / "near").symlink_to("a/config.json")
    (model / "up-and-back").symlink_to("../model/b.bin")
    (model / "dangling").symlink_to("later.bin")
    (model / "a" / "seen").symlink_to("/opt/ml/model/b.bin")
    (model / "a" / "here").symlink_to(model / "b.bin")
    (model / "out").symlink_to("../secret")
    (model / "absolute").symlink_to("/etc/passwd")
    (model / "chained").symlink_to("out")
    reported: list[str] = []
    with open_archive(pack([Source(model, seen_as="/opt/ml/model")], warn=reported.append)) as tar:
        links = {member.name: member.linkname for member in tar if member.issym()}
    assert links == {
        "a/here": "../b.bin",
        "near": "a/config.json",
        "up-and-back": "b.bin",
        "dangling": "later.bin",
        "a/seen": "../b.bin",
    }
    assert len(reported) == 3


def grow_or_shrink_at(path: Path, size: int) -> Iterator[bytes]:
    """Pack the folder and change the file's size once its first block has been read."""
    reported: list[str] = []
    stream = pack([Source(path.parent)], threads=1, warn=reported.append)
    chunks = [next(stream) for _ in range(3)]
    os.truncate(path, size)
    yield from chunks
    yield from stream
    assert len(reported) == 1


def test_a_file_that_shrinks_while_packed_leaves_the_archive_valid(tmp_path: Path) -> None:
    model = make(tmp_path / "model", {"zz": "the last one"})
    (model / "log").write_bytes(b"x" * (40 << 20))
    packed = b"".join(grow_or_shrink_at(model / "log", 20 << 20))
    data = content(iter([packed]), "log")
    assert len(data) == 40 << 20
    assert data.count(b"x") == 20 << 20
    assert content(iter([packed]), "zz") == b"the last one"


def test_a_file_that_grows_while_packed_leaves_the_archive_valid(tmp_path: Path) -> None:
    model = make(tmp_path / "model", {"zz": "the last one"})
    (model / "log").write_bytes(b"x" * (40 << 20))
    packed = b"".join(grow_or_shrink_at(model / "log", 50 << 20))
    assert content(iter([packed]), "log") == b"x" * (40 << 20)
    assert content(iter([packed]), "zz") == b"the last one"


def test_a_path_that_is_too_long_for_the_system_is_named(tmp_path: Path) -> None:
    root = tmp_path / "model"
    root.mkdir()
    folder = os.open(root, os.O_RDONLY)
    for number in range(20):  # 5,000 bytes, made step by step as a script with chdir would
        name = f"{number:02}" + "x" * 248
        os.mkdir(name, dir_fd=folder)
        inner = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    try:
        with pytest.raises(ArchiveError, match="15x.*File name too long.*less deeply"):
            b"".join(pack([Source(root)]))
    finally:
        subprocess.run(["rm", "-r", str(root)], check=True)  # Python's own cannot reach it


def test_a_file_that_vanishes_is_reported_and_left_out(model: Path) -> None:
    reported: list[str] = []
    stream = pack([Source(model)], warn=reported.append)
    (model / "a.txt").unlink()
    assert names(stream) == ["a", "a/config.json", "b.bin"]
    assert len(reported) == 1


def test_a_file_replaced_by_a_pipe_does_not_block(model: Path) -> None:
    reported: list[str] = []
    stream = pack([Source(model)], warn=reported.append)
    (model / "a.txt").unlink()
    os.mkfifo(model / "a.txt")
    assert names(stream) == ["a", "a/config.json", "b.bin"]
    assert len(reported) == 1


def test_a_file_that_cannot_be_read_is_an_error_not_a_gap(model: Path) -> None:
    (model / "a.txt").unlink()
    stream = pack([Source(model)])
    (model / "b.bin").unlink()
    (model / "b.bin").symlink_to("a.txt")  # opening it without following fails for root too
    with pytest.raises(ArchiveError, match=r"'.*/b\.bin' cannot be packed"):
        list(stream)


def test_a_sparse_file_of_gigabytes_needs_memory_of_a_few_blocks(tmp_path: Path) -> None:
    model = make(tmp_path / "model", {})
    with (model / "big").open("wb") as file:
        file.truncate(600 << 20)
    tracemalloc.start()
    try:
        total = sum(len(chunk) for chunk in pack([Source(model)], threads=2))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total < 8 << 20
    assert peak < 32 << 20


def test_a_file_past_the_8_gib_of_plain_tar_gets_its_size_right(tmp_path: Path) -> None:
    model = make(tmp_path / "model", {})
    with (model / "big").open("wb") as file:
        file.truncate((8 << 30) + 5)
    stream = pack([Source(model)])
    beginning = b"".join(next(stream) for _ in range(3))
    stream.close()  # type: ignore[attr-defined]  # a generator
    head = gzip.GzipFile(fileobj=io.BytesIO(beginning)).read(4096)
    with tarfile.open(fileobj=io.BytesIO(head), mode="r:") as tar:
        assert tar.next().size == (8 << 30) + 5  # type: ignore[union-attr]


def test_importing_it_loads_no_compressor() -> None:
    check = (
        "import sys, trackside.files.archive, trackside.files.extract;"
        "sys.exit('isal' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["a", "algo-2"], ["a"]),
        (["a"], ["a", "algo-2"]),
        (["a", "algo-2/a", "algo-2/algo-2"], ["a", "algo-2/a"]),
    ],
)
def test_a_file_with_the_name_of_a_host_is_in_nobodys_way(
    tmp_path: Path, first: list[str], second: list[str]
) -> None:
    hosts = [
        Source(make(tmp_path / host, dict.fromkeys(files, host)), host)
        for host, files in (("algo-1", first), ("algo-2", second))
    ]
    archive = tmp_path / "output.tar.gz"
    archive.write_bytes(b"".join(pack(hosts, clash=Clash.HOST_FOLDER)))
    extract(archive, tmp_path / "out")
    found = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(found) == len(first) + len(second)
    written = ["algo-1"] * len(first) + ["algo-2"] * len(second)
    assert sorted(path.read_text() for path in found) == written
