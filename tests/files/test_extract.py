import gzip
import io
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.small_disk import small_disk
from trackside.errors import ArchiveError, DiskFull
from trackside.files.extract import Limits, extract


class Builder:
    """Writes an archive member by member, as an attacker would."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._members: list[tuple[tarfile.TarInfo, bytes]] = []

    def file(self, name: str, data: bytes = b"x", mode: int = 0o644) -> "Builder":
        return self._add(name, tarfile.REGTYPE, data=data, mode=mode)

    def folder(self, name: str) -> "Builder":
        return self._add(name, tarfile.DIRTYPE, mode=0o755)

    def link(self, name: str, goal: str) -> "Builder":
        return self._add(name, tarfile.SYMTYPE, linkname=goal)

    def hard(self, name: str, goal: str) -> "Builder":
        return self._add(name, tarfile.LNKTYPE, linkname=goal)

    def special(self, name: str, kind: bytes) -> "Builder":
        return self._add(name, kind)

    def done(self) -> Path:
        with tarfile.open(self.path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
            for info, data in self._members:
                tar.addfile(info, io.BytesIO(data))
        return self.path

    def _add(
        self, name: str, kind: bytes, data: bytes = b"", mode: int = 0o644, linkname: str = ""
    ) -> "Builder":
        info = tarfile.TarInfo(name)
        info.type, info.size, info.mode, info.linkname = kind, len(data), mode, linkname
        info.uid = info.gid = 12345
        self._members.append((info, data))
        return self


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Everything around the target; whatever a test does, only the target may change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("secret")
    return folder


@pytest.fixture
def archive(outside: Path) -> Builder:
    return Builder(outside / "sourcedir.tar.gz")


@pytest.fixture
def target(outside: Path) -> Path:
    return outside / "code"


def tree(folder: Path) -> set[str]:
    return {
        os.path.relpath(os.path.join(parent, name), folder)
        for parent, folders, files in os.walk(folder)
        for name in folders + files
    }


def check_nothing_outside(outside: Path) -> None:
    assert {path.name for path in outside.iterdir()} == {"secret", "sourcedir.tar.gz", "code"}
    assert (outside / "secret").read_text() == "secret"
    for parent, folders, files in os.walk(outside / "code"):
        for name in folders + files:
            end = os.path.realpath(os.path.join(parent, name))
            assert end.startswith(os.path.realpath(outside / "code"))


def test_a_valid_archive_is_unpacked_without_a_warning(archive: Builder, target: Path) -> None:
    archive.folder("./").folder("./pkg").file("./pkg/a.py", b"a = 1").file("run.sh", mode=0o755)
    archive.link("pkg/same.py", "a.py").link("top", "pkg/../run.sh").hard("copy.py", "pkg/a.py")
    reported: list[str] = []
    extract(archive.done(), target, warn=reported.append)
    assert reported == []
    assert tree(target) == {"pkg", "pkg/a.py", "pkg/same.py", "run.sh", "top", "copy.py"}
    assert (target / "pkg/same.py").read_bytes() == (target / "copy.py").read_bytes() == b"a = 1"
    assert (target / "run.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("name", "lands"),
    [
        ("../../evil.py", "evil.py"),
        ("/etc/evil.py", "etc/evil.py"),
        ("a/../../../evil.py", "a/evil.py"),
        ("..\\..\\evil.py", "evil.py"),
        ("C:\\temp\\evil.py", "temp/evil.py"),
        ("//evil.py", "evil.py"),
    ],
)
def test_a_name_that_leads_out_lands_inside_with_a_warning(
    archive: Builder, target: Path, outside: Path, name: str, lands: str
) -> None:
    reported: list[str] = []
    extract(archive.file(name, b"evil").done(), target, warn=reported.append)
    assert (target / lands).read_bytes() == b"evil"
    assert len(reported) == 1
    assert repr(name) in reported[0]
    check_nothing_outside(outside)


@pytest.mark.parametrize("name", ["..", "../..", "/..", "a:/../.."])
def test_a_name_of_which_nothing_is_left_is_skipped(
    archive: Builder, target: Path, outside: Path, name: str
) -> None:
    reported: list[str] = []
    extract(archive.file(name).file("good.py").done(), target, warn=reported.append)
    assert len(reported) == 1
    assert (target / "good.py").exists()
    check_nothing_outside(outside)


@pytest.mark.parametrize(
    "kind",
    [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE],
    ids=["character", "block", "fifo"],
)
def test_devices_and_pipes_are_skipped(
    archive: Builder, target: Path, outside: Path, kind: bytes
) -> None:
    reported: list[str] = []
    extract(archive.special("node", kind).file("good.py").done(), target, warn=reported.append)
    assert tree(target) == {"good.py"}
    assert len(reported) == 1
    check_nothing_outside(outside)


def test_the_path_max_trick_does_not_lead_out(
    archive: Builder, target: Path, outside: Path
) -> None:
    # Sixteen long folders and a short link to each: the way through the links is short by name,
    # the resolved one passes PATH_MAX, where realpath() stops checking (CVE-2025-4517).
    long, path, short = "d" * 247, "", ""
    for letter in "abcdefghijklmnop"[:15]:
        archive.folder(path + long).link(path + letter, long)
        path, short = path + long + "/", short + letter + "/"
    archive.link(short + "l" * 254, "../" * 15)
    archive.link("escape", short + "l" * 254 + "/../../secret")
    archive.hard("flag", "escape").file("escape", b"overwritten")
    extract(archive.done(), target, warn=lambda text: None)
    check_nothing_outside(outside)


@pytest.mark.parametrize(
    "build",
    [
        lambda a: a.link("l", "../secret"),
        lambda a: a.link("l", "/etc/passwd"),
        lambda a: a.link("d", "..").file("d/secret", b"evil"),
        lambda a: a.link("d", ".").link("d/up", "..").file("d/up/secret", b"evil"),
        lambda a: a.link("a", "b/../..").link("b", ".").file("a/secret", b"evil"),
        lambda a: a.link("x/y", "..").link("z", "x/y/../secret"),
        lambda a: a.folder("x").link("x/up", "..").link("out", "x/up/../secret"),
        lambda a: a.link("l", "../secret").file("l", b"evil"),
        lambda a: a.file("l").link("l", "../secret").file("l", b"evil"),
        lambda a: a.hard("h", "../secret"),
        lambda a: a.hard("h", "/etc/passwd"),
        lambda a: a.link("l", "../secret").hard("h", "l"),
        lambda a: a.file("f").hard("f", "f"),
        lambda a: a.link("a", "b").link("b", "a"),
        lambda a: a.folder("d").link("d", "..").file("d/secret", b"evil"),
        lambda a: a.link("d", "e").folder("d").file("d/x").link("e", ".."),
        lambda a: a.file("f").hard("f/below", "f"),
        lambda a: a.file("f").hard("g", "f").link("f", "../secret").hard("h", "f").file("h"),
        lambda a: a.link("x/b", "..").link("c", "X/B/../secret"),  # one name, where case is none
    ],
    ids=range(19),
)
def test_no_chain_of_links_leads_out(
    archive: Builder, target: Path, outside: Path, build: object
) -> None:
    build(archive)  # type: ignore[operator]
    extract(archive.file("good.py").done(), target, warn=lambda text: None)
    assert (target / "good.py").exists()
    check_nothing_outside(outside)


def test_set_id_bits_and_owner_are_dropped(archive: Builder, target: Path) -> None:
    extract(archive.file("su", mode=0o6777).done(), target)
    status = (target / "su").stat()
    assert stat.S_IMODE(status.st_mode) == 0o755
    assert status.st_uid == os.getuid()


def test_a_hard_link_to_itself_does_not_cost_the_file(archive: Builder, target: Path) -> None:
    extract(archive.file("f", b"data").hard("f", "./f").done(), target, warn=lambda text: None)
    assert (target / "f").read_bytes() == b"data"


def test_the_later_member_of_a_name_wins_and_spares_its_hard_link(
    archive: Builder, target: Path
) -> None:
    archive.file("a", b"first").hard("b", "a").file("a", b"second")
    extract(archive.done(), target)
    assert (target / "a").read_bytes() == b"second"
    assert (target / "b").read_bytes() == b"first"


@pytest.mark.parametrize("existed", [True, False])
def test_too_many_bytes_stop_at_the_limit_and_give_the_space_back(
    archive: Builder, target: Path, existed: bool
) -> None:
    if existed:
        target.mkdir()
    archive.file("a", bytes(600_000)).file("b", bytes(600_000))
    with pytest.raises(ArchiveError, match=r"sourcedir.*1,000,000 bytes.*'b'.*allow more"):
        extract(archive.done(), target, limits=Limits(total_bytes=1_000_000))
    assert target.exists() is existed
    assert not existed or not any(target.iterdir())


def test_a_terabyte_claimed_in_a_sparse_header_stops_before_it_is_written(
    archive: Builder, target: Path
) -> None:
    info = tarfile.TarInfo("big")
    info.size = 1 << 40
    with gzip.open(archive.path, "wb") as file:
        file.write(info.tobuf())
        file.write(bytes(1 << 20))
    with pytest.raises(ArchiveError, match="bytes in all"):
        extract(archive.path, target)
    assert not target.exists()


def test_too_many_members_stop_at_the_limit(archive: Builder, target: Path) -> None:
    for number in range(12):
        archive.file(f"{number}", b"")
    with pytest.raises(ArchiveError, match="more than 10 members"):
        extract(archive.done(), target, limits=Limits(members=10))
    assert not target.exists()


def test_members_that_are_skipped_count_too(archive: Builder, target: Path) -> None:
    for _ in range(12):
        archive.special("node", tarfile.FIFOTYPE)
    with pytest.raises(ArchiveError, match="more than 10 members"):
        extract(archive.done(), target, limits=Limits(members=10), warn=lambda text: None)


def test_folders_nested_without_end_stop_at_the_limit(archive: Builder, target: Path) -> None:
    with pytest.raises(ArchiveError, match="128 folders deep"):
        extract(archive.file("a/" * 1500 + "b").done(), target)
    assert not target.exists()


def test_folders_that_names_only_imply_are_counted_too(archive: Builder, target: Path) -> None:
    for number in range(5):
        archive.file(f"{number}/a/b/c")
    extract(archive.done(), target, limits=Limits(members=15))
    shutil.rmtree(target)
    with pytest.raises(ArchiveError, match="more than 14 folders"):
        extract(archive.done(), target, limits=Limits(members=14))
    assert not target.exists()


def test_a_name_longer_than_any_path_is_refused_before_it_is_resolved(
    archive: Builder, target: Path
) -> None:
    with pytest.raises(ArchiveError, match="4,096 characters"):
        extract(archive.link("l" * 5000, "a").done(), target)


def test_a_link_that_leads_further_than_any_path_is_skipped(archive: Builder, target: Path) -> None:
    reported: list[str] = []
    extract(archive.link("l", "./" * 3000).file("a").done(), target, warn=reported.append)
    assert tree(target) == {"a"}
    assert len(reported) == 1


def test_names_have_a_limit_in_all(
    archive: Builder, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trackside.files.extract.NAMES_CHARS", 1000)
    for number in range(5):
        archive.link(f"l{number}", "x" * 300)
    with pytest.raises(ArchiveError, match="1,000 characters in all"):
        extract(archive.done(), target)


def test_links_that_lead_through_one_another_without_end_are_given_up(
    archive: Builder, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trackside.files.extract.LINK_STEPS", 5000)
    archive.folder("a").link("l0", ".")
    for number in range(1, 40):
        archive.link(f"l{number}", "a/../" * 40 + f"l{number - 1}")
    with pytest.raises(ArchiveError, match="too many others"):
        extract(archive.done(), target)
    assert not target.exists()


def test_an_archive_inside_another_is_not_unfolded(archive: Builder, target: Path) -> None:
    inner = gzip.compress(gzip.compress(bytes(10 << 20)))
    extract(archive.file("inner.gz", inner).done(), target)
    assert (target / "inner.gz").read_bytes() == inner
    shutil.rmtree(target)
    archive.path.write_bytes(gzip.compress(archive.path.read_bytes()))
    with pytest.raises(ArchiveError, match="does not begin as a tar archive"):
        extract(archive.path, target)
    assert not target.exists()


def test_a_small_archive_of_endless_zeros_stops_at_the_limit(
    archive: Builder, target: Path
) -> None:
    limits = Limits(total_bytes=4 << 20, members=10)
    with gzip.open(archive.path, "wb", compresslevel=1) as file:
        file.write(tarfile.TarInfo("a").tobuf())
        file.write(bytes(8 << 20))
    with pytest.raises(ArchiveError, match="headers and padding included"):
        extract(archive.path, target, limits=limits)
    assert not target.exists()


def test_a_member_costs_a_handful_of_system_calls(archive: Builder, target: Path) -> None:
    """Two hundred thousand empty files took a minute when each was looked for on its way."""
    for number in range(1000):
        archive.file(f"a/b/c/{number}", b"")
    few, many = Builder(target.parent / "few.tar.gz").file("a/b/c/0").done(), archive.done()
    assert num_system_calls(many) - num_system_calls(few) < 6 * 1000


def num_system_calls(archive: Path) -> int:
    """Of a process that unpacks it."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    code = (
        "import sys; from pathlib import Path; from trackside.files.extract import extract\n"
        "extract(Path(sys.argv[1]), Path(sys.argv[1] + '.unpacked'))"
    )
    record = archive.with_suffix(".calls")
    strace = ["strace", "-f", "-qq", "-o", str(record)]
    command = [*strace, sys.executable, "-c", code, str(archive)]
    done = subprocess.run(command, capture_output=True, text=True)
    if "ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    return len(record.read_text().splitlines())


def test_a_header_with_gigabytes_of_metadata_is_not_read_into_memory(
    archive: Builder, target: Path
) -> None:
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 3 << 30
    with gzip.open(archive.path, "wb", compresslevel=1) as file:
        file.write(info.tobuf())
        file.write(bytes(4 << 20))
    with pytest.raises(ArchiveError, match="metadata"):
        extract(archive.path, target)


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, b"Z"], ids=["file", "unknown"])
def test_a_negative_size_does_not_send_the_reader_round_in_circles(
    archive: Builder, target: Path, kind: bytes
) -> None:
    info = tarfile.TarInfo("evil")
    info.type = kind
    header = bytearray(info.tobuf())
    header[124:136] = b"\xff" * 10 + b"\xfe\x00"  # -512 in base 256
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header[:512])
    with gzip.open(archive.path, "wb") as file:
        file.write(tarfile.TarInfo("good").tobuf() + bytes(header) + bytes(1024))
    with pytest.raises(ArchiveError):
        extract(archive.path, target)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04 a zip file", "not a valid gzip file"),
        (b"", "damaged: empty file"),
        (gzip.compress(b"just text, no tar" * 100), "damaged"),
    ],
    ids=["zip", "empty", "text"],
)
def test_what_is_no_archive_is_reported(
    archive: Builder, target: Path, data: bytes, words: str
) -> None:
    archive.path.write_bytes(data)
    with pytest.raises(ArchiveError, match=words):
        extract(archive.path, target)
    assert not target.exists()


def test_a_truncated_archive_is_reported_to_be_cut_short(archive: Builder, target: Path) -> None:
    whole = archive.file("a", os.urandom(200_000)).done().read_bytes()
    archive.path.write_bytes(whole[:-1000])
    with pytest.raises(ArchiveError, match="cut short"):
        extract(archive.path, target)
    assert not target.exists()


def test_a_flipped_bit_is_noticed_by_the_checksum(archive: Builder, target: Path) -> None:
    whole = bytearray(archive.file("a", os.urandom(200_000)).done().read_bytes())
    whole[100_000] ^= 1
    archive.path.write_bytes(whole)
    with pytest.raises(ArchiveError):
        extract(archive.path, target)
    assert not target.exists()


def test_a_damaged_header_in_the_middle_is_not_taken_for_the_end(
    archive: Builder, target: Path
) -> None:
    plain = bytearray(gzip.decompress(archive.file("a").file("b").done().read_bytes()))
    plain[1024] ^= 0xFF
    archive.path.write_bytes(gzip.compress(plain))
    reported: list[str] = []
    extract(archive.path, target, warn=reported.append)
    assert [text for text in reported if "damaged header" in text]


def test_a_folder_with_content_is_left_alone(archive: Builder, target: Path) -> None:
    target.mkdir()
    (target / "mine").write_text("mine")
    with pytest.raises(ArchiveError, match="not an empty folder"):
        extract(archive.file("a").done(), target)
    assert tree(target) == {"mine"}


def test_an_open_stream_is_read_as_well(archive: Builder, target: Path) -> None:
    with archive.file("a", b"data").done().open("rb") as file:
        extract(file, target)
    assert (target / "a").read_bytes() == b"data"


def test_a_missing_archive_is_named(outside: Path, target: Path) -> None:
    with pytest.raises(ArchiveError, match="nowhere"):
        extract(outside / "nowhere.tar.gz", target)


def test_warnings_of_a_malicious_archive_do_not_flood_the_log(
    archive: Builder, target: Path
) -> None:
    for number in range(100):
        archive.link(f"l{number}", "../../secret")
    reported: list[str] = []
    extract(archive.done(), target, warn=reported.append)
    assert len(reported) == 21
    assert "80 more" in reported[-1]


def test_a_full_disk_is_called_by_its_name_and_freed_again(
    archive: Builder, tmp_path: Path
) -> None:
    archive.file("a", os.urandom(600_000)).file("b", os.urandom(600_000))
    with small_disk(tmp_path / "disk") as disk:
        with pytest.raises(DiskFull, match="No space left in '.*/code'"):
            extract(archive.done(), disk / "code")
        assert not any(disk.iterdir())
