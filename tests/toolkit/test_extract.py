"""Hostile and damaged archives: nothing outside the folder, nothing without end."""

import gzip
import io
import os
import stat
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

from trackside.errors import ArchiveError
from trackside.toolkit import extract as extract_module
from trackside.toolkit.extract import extract, is_archive


def member(
    name: str, content: bytes | None = None, **fields: object
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    info.size = len(content or b"")
    return info, content or b""


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.SYMTYPE, linkname=target)


def hard_link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.LNKTYPE, linkname=target)


@pytest.fixture(params=["with Python's filter", "without"], autouse=True)
def _data_filter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Our own checks have to suffice: Python's may be missing, and had holes."""
    if request.param == "without":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Deep enough that leaving it by a few steps is seen."""
    folder = tmp_path / "outside" / "a" / "folder"
    folder.mkdir(parents=True)
    return folder


def unpack(
    tmp_path: Path, folder: Path, *members: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz"
) -> None:
    path = tmp_path / "archive"
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    extract(str(path), str(folder))


def everything_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def check_nothing_left(tmp_path: Path, folder: Path) -> None:
    """No file outside, and no link that leads outside, by the kernel's own reading."""
    outside = everything_below(tmp_path) - {
        f"outside/a/folder/{n}" for n in everything_below(folder)
    }
    assert outside <= {"archive", "outside", "outside/a", "outside/a/folder", "secret"}
    root = os.path.realpath(folder)
    for path in folder.rglob("*"):
        if path.is_symlink():
            assert (os.path.realpath(path) + os.sep).startswith(root + os.sep)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_an_archive_of_any_usual_compression(tmp_path: Path, folder: Path, mode: str):
    script = member("./train.py", b"print(1)", mode=0o644, mtime=1_600_000_000)
    unpack(tmp_path, folder, member(".", type=tarfile.DIRTYPE), script, mode=mode)
    assert (folder / "train.py").read_bytes() == b"print(1)"
    assert (folder / "train.py").stat().st_mtime == 1_600_000_000


@pytest.mark.parametrize(
    ("name", "becomes"),
    [
        ("../../evil", "evil"),
        ("/etc/evil", "etc/evil"),
        ("a/../../evil", "a/evil"),
        ("..\\..\\evil", "evil"),
        ("C:\\evil", "evil"),
    ],
)
def test_a_name_that_leaves_is_brought_inside(
    tmp_path: Path, folder: Path, name: str, becomes: str
):
    unpack(tmp_path, folder, member(name, b"x"))
    assert (folder / becomes).read_bytes() == b"x"
    check_nothing_left(tmp_path, folder)


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_are_skipped(tmp_path: Path, folder: Path, kind: bytes):
    unpack(tmp_path, folder, member("special", type=kind), member("train.py", b"x"))
    assert everything_below(folder) == {"train.py"}


@pytest.mark.parametrize("plants", [False, True])
@pytest.mark.parametrize("target", ["../../secret", "/etc/passwd", "a/../../../secret", ".."])
def test_a_link_out_is_skipped(tmp_path: Path, folder: Path, target: str, plants: bool):
    (tmp_path / "secret").write_text("secret")
    through = [member("leak/planted", b"x")] if plants else []
    unpack(tmp_path, folder, link("leak", target), *through)
    assert not (folder / "leak").is_symlink()
    check_nothing_left(tmp_path, folder)


def test_links_inside_work(tmp_path: Path, folder: Path):
    unpack(
        tmp_path,
        folder,
        link("latest", "versions/2"),
        member("versions/2/model.py", b"x"),
        link("versions/current", "../versions/2"),
    )
    assert (folder / "latest" / "model.py").read_bytes() == b"x"
    assert (folder / "versions" / "current" / "model.py").read_bytes() == b"x"


CHAINS = {
    "a link through a link that appears later": [link("a", "b/../x"), link("b", ".")],
    "a link through a link that appeared before": [link("b", "."), link("a", "b/../x")],
    "a link placed below another link": [link("d", "."), link("d/a", "../escape")],
    "a link placed below a link that comes later": [link("d/a", "../escape"), link("d", ".")],
    "steps of one level each": [
        member("s/t/keep", b""),
        link("one", "s/t"),
        link("one/two", "../../out"),
        link("a", "one/two"),
    ],
    "up after a link that went up": [link("p/q/a", "../b/../x"), link("p/b", "..")],
    "a hard link to a link out": [link("a", "../../secret"), hard_link("stolen", "a")],
    "a hard link to the outside": [hard_link("stolen", "../../secret")],
    "a file over a link": [link("a", "../../secret"), member("a", b"overwritten")],
}


@pytest.mark.parametrize("plants", [False, True])
@pytest.mark.parametrize("members", CHAINS.values(), ids=CHAINS.keys())
def test_no_chain_of_links_leads_out(
    tmp_path: Path, folder: Path, members: list[tuple[tarfile.TarInfo, bytes]], plants: bool
):
    (tmp_path / "secret").write_text("secret")
    through = [member("a/planted", b"x")] if plants else []
    with suppress(ArchiveError):
        unpack(tmp_path, folder, *members, *through)
    check_nothing_left(tmp_path, folder)
    assert (tmp_path / "secret").read_text() == "secret"
    assert not any(path.is_file() and path.read_bytes() == b"secret" for path in folder.rglob("*"))


def test_the_path_length_trick_does_not_lead_out(tmp_path: Path, folder: Path):
    # CVE-2025-4517: realpath gives up on a path beyond PATH_MAX, the kernel does not.
    long = "d" * 247
    members, path = [], ""
    for step in "abcdefghijklmnop":
        members += [
            member(os.path.join(path, long), type=tarfile.DIRTYPE, mode=0o755),
            link(os.path.join(path, step), long),
        ]
        path = os.path.join(path, long)
    short = "/".join("abcdefghijklmnop")
    members += [
        link(os.path.join(short, "l" * 254), "../" * 16),
        link("escape", os.path.join(short, "l" * 254) + "/../../../outside"),
        hard_link("flag", "escape/planted"),
        member("flag", b"x"),
    ]
    with suppress(ArchiveError):
        unpack(tmp_path, folder, *members)
    assert not (tmp_path / "outside" / "planted").exists()
    root = os.path.realpath(folder)
    for name in ("escape", "flag"):
        assert os.path.realpath(folder / name).startswith(root)


def test_set_id_bits_and_foreign_writing_are_dropped(tmp_path: Path, folder: Path):
    unpack(
        tmp_path,
        folder,
        member("tool", b"x", mode=0o6777),
        member("data", b"x", mode=0o2666),
        member("locked", b"x", mode=0o000),
    )
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {"tool": 0o755, "data": 0o644, "locked": 0o600}


def test_hard_links_inside_share_their_content(tmp_path: Path, folder: Path):
    unpack(tmp_path, folder, member("a", b"x"), hard_link("b", "a"))
    assert (folder / "b").read_bytes() == b"x"


def test_a_file_given_twice_has_its_last_content(tmp_path: Path, folder: Path):
    unpack(tmp_path, folder, member("a", b"old"), hard_link("b", "a"), member("a", b"new"))
    assert (folder / "a").read_bytes() == b"new"
    assert (folder / "b").read_bytes() == b"old"


def test_too_many_files_stop_it(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(extract_module, "MOST_MEMBERS", 10)
    with pytest.raises(ArchiveError, match="too large to be a source"):
        unpack(tmp_path, folder, *[member(str(number)) for number in range(11)])


def test_an_archive_that_expands_without_end_is_stopped_before_the_disk_is_full(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(extract_module, "MOST_BYTES", 1024 * 1024)
    with pytest.raises(ArchiveError, match="too large to be a source"):
        unpack(tmp_path, folder, member("zeros", bytes(8 * 1024 * 1024)))
    assert sum(path.stat().st_size for path in folder.rglob("*")) <= 1024 * 1024


def test_a_header_that_claims_gigabytes_is_refused(tmp_path: Path, folder: Path):
    info = tarfile.TarInfo("././@PaxHeader")
    info.type = tarfile.XHDTYPE
    info.size = 4 * 1024**3
    path = tmp_path / "archive"
    with gzip.open(path, "wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        file.write(bytes(16 * 1024 * 1024))
    with pytest.raises(ArchiveError, match="4,294,967,296 bytes read at once"):
        extract(str(path), str(folder))


def test_folders_nested_without_end_are_refused(tmp_path: Path, folder: Path):
    with pytest.raises(ArchiveError, match="nests 2000 folders"):
        unpack(tmp_path, folder, member("/".join("d" * 2000), b"x"))


@pytest.mark.parametrize("keep", [0, 10, 60, 200])
def test_a_damaged_archive_says_so(tmp_path: Path, folder: Path, keep: int):
    path = tmp_path / "archive"
    with tarfile.open(path, "w:gz") as archive:
        info, content = member("train.py", os.urandom(100_000))
        archive.addfile(info, io.BytesIO(content))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ArchiveError, match="damaged|not a tar archive"):
        extract(str(path), str(folder))


def test_a_flipped_byte_is_noticed(tmp_path: Path, folder: Path):
    path = tmp_path / "archive"
    with tarfile.open(path, "w:gz") as archive:
        info, content = member("train.py", b"print('again')\n" * 10_000)
        archive.addfile(info, io.BytesIO(content))
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.raises(ArchiveError):
        extract(str(path), str(folder))


def test_a_file_that_is_also_a_folder_is_refused(tmp_path: Path, folder: Path):
    with pytest.raises(ArchiveError, match="cannot be extracted"):
        unpack(tmp_path, folder, member("a", b"x"), member("a/b", b"x"))


def test_only_archives_are_archives(tmp_path: Path):
    script = tmp_path / "train.py"
    script.write_text("print(1)")
    assert not is_archive(str(script))
