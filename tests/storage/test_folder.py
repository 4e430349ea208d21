"""What only a folder store promises: durability, hidden unfinished files, nothing outside."""

import errno
import os
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.small_disk import small_disk
from trackside.errors import AccessRefused, DamagedTransfer, DiskFull, InvalidKey, ObjectNotFound
from trackside.storage.folder import FolderStore
from trackside.storage.partial_file import is_temporary

NAMES = st.sampled_from(["a", "a-", "a.b", "a0", "b", "é"])  # on both sides of the slash
KEYS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


def keys(store: FolderStore, *args: str, **kwargs: str) -> list[str]:
    return [entry.key for entry in store.list(*args, **kwargs)]


def test_starting_up_loads_no_object_store_library() -> None:
    code = (
        "import sys, trackside.storage.locate, trackside.storage.transfer\n"
        "assert 'obstore' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unfinished_object_is_not_listed_and_not_reachable(tmp_path: Path) -> None:
    root = tmp_path / "root"
    store = FolderStore(root)
    seen: list[list[str]] = []
    on_disk: list[list[str]] = []

    def chunks() -> Iterator[bytes]:
        yield b"first half"
        seen.append(keys(store))
        on_disk.append(os.listdir(root))
        yield b"second half"

    store.put("object", chunks())
    assert seen == [[]]
    (temporary,) = (name for name in on_disk[0] if is_temporary(name))
    with pytest.raises(InvalidKey, match="unfinished"):
        store.get(temporary)
    assert not any(is_temporary(name) for name in os.listdir(root))
    assert keys(store) == ["object"]


def test_a_put_syncs_the_file_before_and_the_folder_after_its_rename(tmp_path: Path) -> None:
    if not Path("/usr/bin/strace").exists():
        pytest.skip("strace is not installed")
    code = (
        "from pathlib import Path; from trackside.storage.folder import FolderStore\n"
        f"FolderStore(Path({str(tmp_path)!r})).put('new/folder/object', b'x')"
    )
    trace = tmp_path / "trace"
    calls = ["strace", "-f", "-y", "-o", str(trace), "-e", "trace=fsync,rename,renameat"]
    done = subprocess.run([*calls, sys.executable, "-c", code], capture_output=True, text=True)
    if "ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    lines = [line for line in trace.read_text().splitlines() if str(tmp_path) in line]
    kinds = [line.split("(")[0].split()[-1] for line in lines]
    renamed = next(at for at, kind in enumerate(kinds) if kind.startswith("rename"))
    assert kinds[:renamed] == ["fsync"]
    synced = {line.split("<")[1].split(">")[0] for line in lines[renamed + 1 :]}
    assert synced == {str(tmp_path / "new/folder"), str(tmp_path / "new"), str(tmp_path)}


def test_a_key_that_would_leave_the_root_finds_nothing_outside(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("outside")
    store = FolderStore(tmp_path / "bucket")
    store.put("inside", b"x")
    assert keys(store, "../") == []
    assert keys(store, "../secret") == []
    assert keys(store, "inside/../../") == []
    with pytest.raises(InvalidKey):
        store.get("../secret")


def test_links_are_followed_but_never_in_a_circle(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    (root / "a").mkdir(parents=True)
    (elsewhere / "deep").mkdir(parents=True)
    (elsewhere / "deep" / "data").write_bytes(b"far away")
    (root / "a" / "file").write_bytes(b"here")
    (root / "linked").symlink_to(elsewhere)
    (root / "link to file").symlink_to(root / "a" / "file")
    (root / "dangling").symlink_to(tmp_path / "nowhere")
    (root / "a" / "up").symlink_to(root)
    (elsewhere / "deep" / "back").symlink_to(root / "a")
    store = FolderStore(root)
    assert keys(store) == [
        "a/file",
        "link to file",
        "linked/deep/back/file",
        "linked/deep/data",
    ]
    assert store.get("linked/deep/data") == b"far away"


def test_only_regular_files_are_objects(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(tmp_path)  # socket paths may have 108 bytes only
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
    (tmp_path / "empty folder").mkdir()
    store = FolderStore(tmp_path)
    assert keys(store, "fifo") == keys(store, "socket") == keys(store, "empty folder") == []
    for key in ("fifo", "empty folder"):
        with pytest.raises(ObjectNotFound):
            store.get(key)
        with pytest.raises(ObjectNotFound):
            store.stat(key)


def test_an_object_cannot_be_a_folder_of_another(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put("a/b", b"1")
    with pytest.raises(InvalidKey, match="rename one"):
        store.put("a", b"2")
    with pytest.raises(InvalidKey, match="rename one"):
        store.put("a/b/c", b"3")
    assert keys(store) == ["a/b"]
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if is_temporary(name)]


def test_deleting_the_last_object_removes_its_folders_but_not_the_root(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "root")
    store.put("a/b/c", b"1")
    store.put("a/d", b"2")
    store.delete(["a/b/c"])
    assert sorted(os.listdir(tmp_path / "root" / "a")) == ["d"]
    store.delete(["a/d"])
    assert os.listdir(tmp_path / "root") == []


def test_deleting_a_folder_name_deletes_nothing(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put("a/b", b"1")
    store.delete(["a", "a/b/c"])
    assert keys(store) == ["a/b"]


def test_a_full_disk_is_named_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        store = FolderStore(disk)
        store.put("fits", bytes(100_000))
        source = tmp_path / "too large"
        source.write_bytes(bytes(5_000_000))
        for data in (bytes(5_000_000), source, iter([bytes(700_000)] * 9)):
            with pytest.raises(DiskFull, match=str(disk)):
                store.put("too large", data)
        assert os.listdir(disk) == ["fits"]
        store.put("fits again", bytes(100_000))


def test_a_folder_that_may_not_be_read_is_named() -> None:
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        closed = Path(name) / "closed"
        FolderStore(Path(name)).put("closed/object", b"x")
        closed.chmod(0)
        try:
            assert run_as_nobody(lambda: check_refused(FolderStore(Path(name)))) == 0
        finally:
            closed.chmod(0o700)


def check_refused(store: FolderStore) -> None:
    with pytest.raises(AccessRefused, match="closed"):
        store.get("closed/object")
    with pytest.raises(AccessRefused, match="closed"):
        keys(store)


def run_as_nobody(check: Callable[[], None]) -> int:
    """Root may read everything, so a child process without its rights tries."""
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            check()
        except BaseException:  # noqa: BLE001 becomes the exit code
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_name_too_long_for_the_system_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(InvalidKey, match=os.strerror(errno.ENAMETOOLONG)):
        FolderStore(tmp_path).put("x" * 300, b"")
    with pytest.raises(InvalidKey):
        FolderStore(tmp_path).get("x" * 300)


def test_a_file_that_shrinks_while_it_is_stored_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(100_000))
    copy = os.copy_file_range

    def shrink_then_copy(*args: int) -> int:
        os.truncate(source, 10)
        return copy(*args)

    monkeypatch.setattr(os, "copy_file_range", shrink_then_copy)
    store = FolderStore(tmp_path / "bucket")
    with pytest.raises(DamagedTransfer, match="shrank"):
        store.put("k", source)
    assert keys(store) == []


def test_copying_works_where_the_kernel_cannot_do_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "copy_file_range")
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3_000_001))
    store = FolderStore(tmp_path / "bucket")
    store.put("k", source)
    assert store.get("k") == source.read_bytes()


def test_listing_after_a_key_does_not_read_earlier_folders(tmp_path: Path) -> None:
    root = tmp_path / "root"
    store = FolderStore(root)
    for day in range(5):
        store.put(f"day-{day}/object", b"x")
    scanned: list[str] = []
    sys.addaudithook(
        lambda event, args: scanned.append(str(args[0])) if event == "os.scandir" else None
    )
    assert keys(store, after="day-3/object") == ["day-4/object"]
    inside = {Path(path).name for path in scanned if path.startswith(str(root))}
    assert inside == {"root", "day-3", "day-4"}


def test_a_name_that_is_not_unicode_is_listed_and_read(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).write_bytes(b"latin")
    store = FolderStore(tmp_path)
    (key,) = keys(store)
    assert store.get(key) == b"latin"


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=60,
)
@given(
    names=st.sets(KEYS, min_size=2, max_size=8), prefix=KEYS | st.just(""), after=KEYS | st.just("")
)
def test_any_listing_equals_filtering_a_sorted_list(
    tmp_path_factory: pytest.TempPathFactory, names: set[str], prefix: str, after: str
) -> None:
    root = tmp_path_factory.mktemp("listing")
    made: list[str] = []
    for name in sorted(names, key=len, reverse=True):
        if not any(other.startswith(f"{name}/") for other in made) and not any(
            name.startswith(f"{other}/") for other in made
        ):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            made.append(name)
    expected = [
        name
        for name in sorted(made, key=str.encode)
        if name.startswith(prefix) and name.encode() > after.encode()
    ]
    assert keys(FolderStore(root), prefix, after) == expected


def test_what_the_server_keeps_beside_the_objects_is_no_part_of_the_store(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put("below/.trackside/object", b"")
    (tmp_path / ".trackside" / "keys").mkdir(parents=True)
    (tmp_path / ".trackside" / "keys" / "a%2F").touch()
    assert keys(store) == ["below/.trackside/object"]
    assert list(store.list(".trackside/")) == []
    with pytest.raises(InvalidKey, match="reserved for the server"):
        store.get(".trackside/keys/a%2F")


def test_whether_a_key_can_be_written_is_known_without_writing(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "root")
    store.check_writable("a/b/c")
    assert not store.root.exists()
    store.put("a/file", b"x")
    store.check_writable("a/other")
    with pytest.raises(InvalidKey, match="one of its folders is a file"):
        store.check_writable("a/file/below")
    with pytest.raises(InvalidKey):
        store.check_writable("a/../../out")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_closed_is_known_without_writing(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    with pytest.raises(AccessRefused, match="closed"):
        FolderStore(closed).check_writable("a/b")
