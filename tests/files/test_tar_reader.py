"""What other programs pack is read as they meant it, and what nobody means is refused."""

import gzip
import io
import os
import random
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from trackside.errors import ArchiveError
from trackside.files import tar_reader
from trackside.files.extract import Limits, extract

LONG = "/".join(["long folder name " + "x" * 80] * 2) + "/" + "y" * 120


def header(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.USTAR_FORMAT)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def pax(**records: str) -> bytes:
    data = b""
    for key, value in records.items():
        rest = f" {key.replace('__', '.')}={value}\n".encode()
        length = len(rest)
        while length != len(rest) + len(str(length)):
            length = len(rest) + len(str(length))
        data += str(length).encode() + rest
    return header("pax", tarfile.XHDTYPE, len(data)) + padded(data)


def unpacked(tmp_path: Path, plain: bytes, limits: Limits | None = None) -> Path:
    archive, target = tmp_path / "a.tar.gz", tmp_path / "target"
    archive.write_bytes(gzip.compress(plain + bytes(1024), 1))
    extract(archive, target, limits=limits)
    return target


def content(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = "folder"
        else:
            status = path.stat()
            found[name] = (path.read_bytes(), status.st_mode & 0o777, int(status.st_mtime))
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "sub").mkdir(parents=True)
    (folder / "empty folder").mkdir()
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "sub" / "größe ½.txt").write_text("umlauts")
    (folder / "sub" / "data").write_bytes(bytes(range(256)) * 3000)
    (folder / "link").symlink_to("sub/data")
    for path in folder.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (1_500_000_000, 1_500_000_000))
    return folder


def gnu_tar(source: Path, tmp_path: Path, *options: str) -> Path:
    program = shutil.which("tar")
    if program is None:
        pytest.skip("tar is not installed")
    archive = tmp_path / "source.tar.gz"
    subprocess.run([program, *options, "-czf", archive, "-C", source, "."], check=True)
    return archive


@pytest.mark.parametrize("form", ["v7", "oldgnu", "gnu", "ustar", "posix"])
def test_every_form_that_gnu_tar_writes_is_read(source: Path, tmp_path: Path, form: str):
    if form in ("oldgnu", "gnu", "posix"):
        (source / LONG).parent.mkdir(parents=True)
        (source / LONG).write_text("a long name")
        (source / "long link").symlink_to(LONG)
    extract(gnu_tar(source, tmp_path, f"--format={form}"), tmp_path / "target")
    assert content(tmp_path / "target") == content(source)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_form_that_python_writes_is_read(source: Path, tmp_path: Path, form: int):
    if form != tarfile.USTAR_FORMAT:
        (source / LONG).parent.mkdir(parents=True)
        (source / LONG).write_text("a long name")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz", format=form) as tar:
        tar.add(source, arcname=".")
    extract(tmp_path / "a.tar.gz", tmp_path / "target")
    assert content(tmp_path / "target") == content(source)


@pytest.mark.parametrize(
    "options",
    [
        ("--format=gnu",),
        ("--format=posix", "--sparse-version=0.0"),
        ("--format=posix", "--sparse-version=0.1"),
        ("--format=posix", "--sparse-version=1.0"),
    ],
    ids=["gnu", "0.0", "0.1", "1.0"],
)
def test_files_with_holes_are_read_in_every_form(
    source: Path, tmp_path: Path, options: tuple[str, ...]
):
    with (source / "holes").open("wb") as file:
        for part in range(40):  # more than a header has room for
            file.seek(part * (1 << 20))
            file.write(f"part {part}".encode())
        file.truncate(50 << 20)
    with (source / "one hole").open("wb") as file:
        file.truncate(3 << 20)
    extract(gnu_tar(source, tmp_path, "--sparse", *options), tmp_path / "target")
    read, meant = tmp_path / "target" / "holes", source / "holes"
    assert read.read_bytes() == meant.read_bytes()
    assert read.stat().st_blocks * 512 < 10 << 20
    assert (tmp_path / "target" / "one hole").read_bytes() == bytes(3 << 20)


def test_a_hole_counts_towards_the_limit_of_bytes(source: Path, tmp_path: Path):
    with (source / "holes").open("wb") as file:
        file.truncate(1 << 40)
    archive = gnu_tar(source, tmp_path, "--sparse")
    with pytest.raises(ArchiveError, match="bytes in all"):
        extract(archive, tmp_path / "target")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    "records",
    [
        {"GNU__sparse__map": "0,5,3,5", "GNU__sparse__size": "20"},
        {"GNU__sparse__map": "0,10", "GNU__sparse__size": "5"},
        {"GNU__sparse__map": "0,10,20", "GNU__sparse__size": "40"},
        {"GNU__sparse__map": "0,-10", "GNU__sparse__size": "40"},
        {"GNU__sparse__map": "0,4", "GNU__sparse__size": "40"},
        {"GNU__sparse__map": "0,10"},
        {"GNU__sparse__offset": "0", "GNU__sparse__size": "40"},
        {"GNU__sparse__major": "1", "GNU__sparse__realsize": "40"},
    ],
    ids=["overlap", "beyond", "odd", "negative", "less", "no size", "no length", "no list"],
)
def test_holes_that_make_no_sense_are_refused(tmp_path: Path, records: dict[str, str]):
    with pytest.raises(ArchiveError, match="damaged"):
        unpacked(tmp_path, pax(**records) + header("f", size=10) + padded(b"0123456789"))
    assert not (tmp_path / "target").exists()


def test_times_and_sizes_of_extended_headers_are_believed(tmp_path: Path):
    reported = pax(path="ß", size="3", mtime="1234567890.5", comment="none of our business")
    target = unpacked(tmp_path, reported + header("x") + padded(b"abc") + header("after"))
    assert (target / "ß").read_bytes() == b"abc"
    assert (target / "ß").stat().st_mtime == 1234567890.5
    assert (target / "after").exists()


def test_a_global_header_holds_for_all_and_is_overruled_by_a_members_own(tmp_path: Path):
    for_all = pax(mtime="1000")
    for_all = for_all[:156] + b"g" + for_all[157:]
    total = sum(for_all[:148]) + 8 * 32 + sum(for_all[156:512])
    for_all = for_all[:148] + b"%06o\0 " % total + for_all[156:]
    target = unpacked(tmp_path, for_all + header("a") + pax(mtime="2000") + header("b"))
    assert [(target / name).stat().st_mtime for name in "ab"] == [1000, 2000]


def test_sizes_beyond_eight_gigabytes_are_read_in_binary(tmp_path: Path):
    info = tarfile.TarInfo("large")
    info.size = 9 << 30
    with pytest.raises(ArchiveError, match=r"1,000 bytes in all.*'large'"):
        unpacked(tmp_path, info.tobuf(tarfile.GNU_FORMAT), limits=Limits(total_bytes=1000))


@pytest.mark.parametrize(
    "data",
    [b"1" * 1_000_000, b"30 path=short\n", b"x path=a\n", b"0 path=a\n", b"9 pathxxx\n"],
    ids=["digits", "longer than it is", "no length", "nothing", "no equals"],
)
def test_an_extended_header_that_is_none_is_refused_at_once(tmp_path: Path, data: bytes):
    """A megabyte of digits had the patterns of Python's tarfile search for hours (CVE-2024-6232)"""
    with pytest.raises(ArchiveError, match="extended header"):
        unpacked(tmp_path, header("pax", tarfile.XHDTYPE, len(data)) + padded(data) + header("a"))


@pytest.mark.parametrize(
    "records",
    [{"path": "a\0b"}, {"size": "-1"}, {"size": "1e3"}, {"mtime": "noon"}, {"mtime": "nan"}],
    ids=str,
)
def test_values_that_make_no_sense_are_refused(tmp_path: Path, records: dict[str, str]):
    with pytest.raises(ArchiveError, match="damaged"):
        unpacked(tmp_path, pax(**records) + header("a"))


@pytest.mark.parametrize("kind", [b"L", b"K", b"x"])
def test_a_long_row_of_extended_headers_is_refused(tmp_path: Path, kind: bytes):
    """One call inside another for each exhausted the stack of Python's tarfile."""
    one = pax(path="a") if kind == b"x" else header("long", kind, 2) + padded(b"a\0")
    with pytest.raises(ArchiveError, match="in a row"):
        unpacked(tmp_path, one * 5000 + header("a"))


def test_an_extended_header_without_a_member_is_refused(tmp_path: Path):
    with pytest.raises(ArchiveError, match="no member after it"):
        unpacked(tmp_path, header("a") + pax(path="b"))


def test_metadata_has_a_limit_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tar_reader, "METADATA_BYTES_IN_ALL", 1000)
    one = pax(comment="x" * 300) + header("a")
    assert (unpacked(tmp_path, one * 3) / "a").exists()
    shutil.rmtree(tmp_path / "target")
    with pytest.raises(ArchiveError, match="1,000 bytes of extended headers"):
        unpacked(tmp_path, one * 4)


def test_an_archive_that_ends_inside_a_member_is_damaged(tmp_path: Path):
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(gzip.compress(header("a", size=5000) + b"only this"))
    with pytest.raises(ArchiveError, match="ends inside a member"):
        extract(archive, tmp_path / "target")


def test_an_archive_without_an_end_is_read_all_the_same(tmp_path: Path):
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(gzip.compress(header("a", size=3) + padded(b"abc")))
    extract(archive, tmp_path / "target")
    assert (tmp_path / "target" / "a").read_bytes() == b"abc"


def test_altered_archives_are_unpacked_or_refused_and_nothing_else(source: Path, tmp_path: Path):
    """Any byte of any header may be altered, and its checksum be right all the same."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        tar.add(source, arcname=".", filter=lambda info: None if info.size > 1000 else info)
    plain = buffer.getvalue().rstrip(b"\0") + bytes(512)
    plain = plain[: -(len(plain) % 512) or None]
    draw = random.Random(7)
    place = tmp_path / "place"
    place.mkdir()
    num_refused = 0
    for number in range(300):
        altered = bytearray(plain)
        start = draw.randrange(len(plain) // 512) * 512
        for _ in range(draw.randint(1, 4)):
            altered[start + draw.randrange(512)] = draw.choice((0, 32, 47, 48, 120, 128, 255))
        rest = altered[start : start + 148] + altered[start + 156 : start + 512]
        altered[start + 148 : start + 156] = b"%06o\0 " % (sum(rest) + 8 * 32)
        target = place / f"target-{number}"
        archive = place / "altered.tar.gz"
        archive.write_bytes(gzip.compress(bytes(altered), 1))
        try:
            extract(archive, target, limits=Limits(total_bytes=1 << 20), warn=lambda reported: None)
        except ArchiveError:
            num_refused += 1
            assert not target.exists()
        else:
            shutil.rmtree(target)
    assert 0 < num_refused < 300
    assert [path.name for path in place.iterdir()] == ["altered.tar.gz"]
