"""Parts of hosts on other machines, merged: byte for byte what one machine would have packed."""

import io
import os
import tarfile
import tempfile
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.errors import DamagedTransfer
from trackside.files.archive import Clash, Origin, Source, pack, plan
from trackside.files.archive_part import PartMember, PartSource, PartWriter
from trackside.files.json_record import DamagedRecord

MIB = 1 << 20
NAMES = ["a", "b", "c.txt", "algo-2", "algo-3", "sp ace", "ü", "byte\udcff", "new\nline", "n" * 140]
SIZES = [0, 1, 511, 512, 513, 3000, 3001, 70_000, MIB + 1]
GOALS = [
    "a",
    "b",
    "../a",
    "algo-2/b",
    "c.txt",
    "../../..",
    "/opt/ml/model/a",
    "/opt/ml/model/algo-2/a",
    "/etc/passwd",
    "nowhere",
    ".",
]

Trees = list[list[tuple[list[str], str, int, str]]]
entry = st.tuples(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3),
    st.sampled_from(["file", "file", "folder", "link", "fifo"]),
    st.sampled_from(SIZES),
    st.sampled_from(GOALS),
)
trees = st.lists(st.lists(entry, max_size=12), min_size=1, max_size=5)


def make(root: Path, tree: list[tuple[list[str], str, int, str]]) -> None:
    """As much of it as a file system can hold."""
    root.mkdir()
    for number, (parts, kind, size, goal) in enumerate(tree):
        path = root.joinpath(*parts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(path):
                continue
            if kind == "file":
                pattern = (b"some text ", b"\0", os.urandom(7))[number % 3]
                path.write_bytes((pattern * (size // len(pattern) + 1))[:size])
                path.chmod(0o600 + number)
            elif kind == "folder":
                path.mkdir()
            elif kind == "link":
                path.symlink_to(goal)
            else:
                os.mkfifo(path)
            os.utime(path, (number * 1e6, number * 1e6), follow_symlinks=False)
        except (FileExistsError, NotADirectoryError, OSError):
            continue


def part_of(source: Source, warnings: list[str]) -> PartSource:
    """As it arrives at the lead: all through texts."""
    writer = PartWriter(source, warnings.append)
    tar = b"".join(writer.chunks())
    rows = [member.to_json() for member in writer.members]
    members = [PartMember.parse(row.encode("ascii")) for row in rows]

    def read(start: int) -> Iterator[bytes]:
        for offset in range(start, len(tar), 40_000):
            yield tar[offset : min(offset + 40_000, len(tar))]

    return PartSource(source.host, members, read, has_entries=source.has_entries())


def uncompressed(origins: Sequence[Origin]) -> dict[str, bytes]:
    """As the model of a job without compression is stored."""
    found = {}
    for member in plan(origins, clash=Clash.LAST_WINS):
        content = member.source.file(member, lambda text: None)
        if content is not None:
            found[member.name] = b"".join(content)
    return found


@settings(max_examples=100)
@given(trees)
def test_merged_parts_are_what_one_machine_packs(hosts: Trees) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sources = []
        for number, tree in enumerate(hosts, 1):
            root = Path(folder, f"host-{number}")
            make(root, tree)
            sources.append(Source(root, f"algo-{number}", seen_as="/opt/ml/model"))
        warnings: list[str] = []
        parts = [part_of(source, warnings) for source in sources[1:]]
        for clash in Clash:
            here = b"".join(pack(sources, clash=clash, warn=warnings.append, threads=1))
            merged = b"".join(
                pack([sources[0], *parts], clash=clash, warn=warnings.append, threads=1)
            )
            assert merged == here
        assert uncompressed([sources[0], *parts]) == uncompressed(sources)


def test_a_part_is_a_tar_that_anybody_can_read(tmp_path: Path) -> None:
    make(tmp_path / "model", [(["a", "b"], "file", 3000, ""), (["a", "c"], "link", 0, "b")])
    writer = PartWriter(Source(tmp_path / "model", "algo-2"), pytest.fail)
    with tarfile.open(fileobj=io.BytesIO(b"".join(writer.chunks()))) as tar:
        assert sorted(tar.getnames()) == ["a", "a/b", "a/c"]
    first = writer.members
    assert b"".join(writer.chunks())
    assert writer.members == first


def test_a_large_part_is_merged_in_little_memory(tmp_path: Path) -> None:
    sources = []
    for host in ("algo-1", "algo-2"):
        folder = tmp_path / host
        folder.mkdir()
        with (folder / f"{host}.bin").open("wb") as file:
            file.truncate(200 * MIB)
        sources.append(Source(folder, host))
    writer = PartWriter(sources[1], pytest.fail)
    with (tmp_path / "part.tar").open("wb") as file:
        file.writelines(writer.chunks())

    def read(start: int) -> Iterator[bytes]:
        with (tmp_path / "part.tar").open("rb") as file:
            file.seek(start)
            while data := file.read(64 << 10):
                yield data

    part = PartSource("algo-2", writer.members, read, has_entries=True)
    tracemalloc.start()
    try:
        for _ in pack([sources[0], part], threads=1):
            pass
        assert tracemalloc.get_traced_memory()[1] < 30 * MIB
    finally:
        tracemalloc.stop()


def test_a_tar_that_is_too_short_is_damage(tmp_path: Path) -> None:
    make(tmp_path / "model", [(["a"], "file", 3000, "")])
    writer = PartWriter(Source(tmp_path / "model", "algo-2"), pytest.fail)
    tar = b"".join(writer.chunks())[:2000]
    part = PartSource("algo-2", writer.members, lambda start: iter([tar[start:]]), has_entries=True)
    with pytest.raises(DamagedTransfer):
        b"".join(pack([part]))


@pytest.mark.parametrize("line", [b"", b"{}", b"[1]", b'["a", 7, 0, 0, 0, "", 0, ""]', b"\xff"])
def test_a_damaged_line_of_a_listing_is_named(line: bytes) -> None:
    with pytest.raises(DamagedRecord):
        PartMember.parse(line)
