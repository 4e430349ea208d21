"""What a process sees on Linux: its own mounts, host name and /etc/hosts, made without a trace.

Runs inside the sandbox's init, so it imports nothing slow; errors are OSError with the path in it.
What a command that runs as another user needs besides is `confinement.py`'s.
"""

import ctypes
import os
import sys

from trackside import process_table

# From <sched.h>, <sys/mount.h> and <sys/prctl.h>; the same on x86-64 and arm64.
_CLONE_NEWNS = 0x00020000
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_NOATIME, _MS_NODIRATIME = 1024, 2048
_MS_REMOUNT, _MS_BIND, _MS_MOVE, _MS_REC = 32, 4096, 8192, 16384
_MS_SLAVE = 1 << 19
_MS_RELATIME = 1 << 21
_ST_RELATIME = 4096  # the other flags have the same value in statvfs() as in mount()
_KEPT_FLAGS = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC | _MS_NOATIME | _MS_NODIRATIME
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_LAST_CAPABILITY = 63

ML = "/opt/ml"

TYPE_CHECKING = False  # typing itself takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable

    Show = Callable[[str, int, str], bool]
    """Mounts the folder behind a descriptor for a target, at a place; or leaves it, and says so."""


def isolate(kind: str, stage: str, mark: str, *, shares_ipc: bool = True) -> str:
    """Give this process mounts and a host name of its own, and a small tmpfs at `stage`.

    `kind` is "root", or "user" for a user namespace in which the user keeps the own id. The tmpfs
    holds what is made up for this namespace; its source `mark` tells whose namespace it is.
    Nothing mounted here shows outside, and no capability stays that the user did not have.
    Returns a path to the tmpfs that holds whatever is mounted over the folders above it.
    """
    had = _capabilities()
    user, group = os.geteuid(), os.getegid()
    spaces = _CLONE_NEWNS | _CLONE_NEWUTS | (_CLONE_NEWUSER if kind == "user" else 0)
    spaces |= 0 if shares_ipc else _CLONE_NEWIPC
    check(libc.unshare(spaces), "unshare")
    if kind == "user":
        _write("/proc/self/setgroups", "deny")  # the kernel demands it before gid_map
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    # A slave and not private: volumes that the machine mounts later (automounted homes and
    # data) still appear in here, and nothing of ours goes back.
    mount(None, "/", flags=_MS_SLAVE | _MS_REC)
    mount(mark, stage, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755,size=16m")
    for capability in range(_LAST_CAPABILITY + 1):
        if not had >> capability & 1:
            libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    return f"/proc/self/fd/{os.open(stage, os.O_PATH)}"


def arrange(
    stage: str,
    mounts: list[tuple[str, str]],
    read_only: list[str],
    host: str,
    hosts: str,
    *,
    owner: int | None = None,
    show: "Show | None" = None,
) -> None:
    """Show each folder at its target, put `hosts` before the lines of /etc/hosts, name the host.

    `owner` is the user who will see it, where that is not the one who arranges it. `show` mounts
    in ways of its own; what it leaves alone is bound.
    """
    before = os.umask(0o022)
    # Sources are opened before anything is covered: a mount may hide the way to the next one.
    sources = [(target, os.open(source, os.O_PATH)) for target, source in mounts]
    for target, source in sorted(sources):  # a folder before what is mounted inside it
        place = os.path.realpath(target)
        _provide(place, stage, owner)
        if show is None or not show(target, source, place):
            _bind(f"/proc/self/fd/{source}", place)
        os.close(source)
        if target in read_only:
            _make_read_only(place)
    _write(
        f"{stage}/hosts", hosts + process_table.read("/etc/hosts").decode(errors="surrogateescape")
    )
    if os.path.exists("/etc/hosts"):
        _bind(f"{stage}/hosts", os.path.realpath("/etc/hosts"))
    name = host.encode()
    check(libc.sethostname(name, len(name)), "sethostname")
    os.umask(before)


def become_subreaper() -> None:
    """Orphans among our descendants become our children instead of the machine's init's."""
    check(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, also if that has happened already."""
    check(libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Try each kind in a process of its own: `python ... namespaces STAGE KIND...`.

    Prints a line per kind: its name and, where it does not work, a colon and why.
    """
    stage, *kinds = sys.argv[1:]
    for kind in kinds:
        pid = os.fork()
        if pid == 0:
            os.write(1, _trial(kind, stage).encode())
            os._exit(0)
        os.waitpid(pid, 0)


def _trial(kind: str, stage: str) -> str:
    try:
        isolate(kind, stage, "trackside-trial")
    except OSError as error:
        return f"{kind}: {error.strerror}\n"
    return f"{kind}\n"


def _provide(place: str, stage: str, owner: int | None) -> None:
    """Make sure that something can be mounted at `place`, leaving the real file system alone.

    Where the user may write anyway, a folder is made, as the script itself would. `/`, `/opt` and
    folders closed to the user are covered by a view of themselves that takes the new entry; for
    another user, `owner`, all that are not its own.
    """
    if os.path.exists(place):
        return
    above = os.path.dirname(place)
    while not os.path.exists(above):
        above = os.path.dirname(above)
    is_open = os.access(above, os.W_OK) if owner is None else os.stat(above).st_uid == owner
    if above in ("/", os.path.realpath("/opt")) or not is_open:
        _cover_with_view(above, stage)
    os.makedirs(place, exist_ok=True)


def _cover_with_view(folder: str, stage: str) -> None:
    """Cover a folder by a fresh one with the same entries, each bound to the real one."""
    view = f"{stage}/view-{len(os.listdir(stage))}"
    os.mkdir(view)
    for entry in os.scandir(folder):
        copy = f"{view}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), copy)
            continue
        if entry.is_dir():
            os.mkdir(copy)
        else:
            _write(copy, "")
        _bind(entry.path, copy)
    os.chmod(view, os.stat(folder).st_mode & 0o7777)
    _bind(view, view if folder == "/" else folder)
    if folder == "/":
        os.chdir(view)
        mount(view, "/", flags=_MS_MOVE)
        os.chroot(".")
        os.chdir("/")


def _make_read_only(place: str) -> None:
    """Everything mounted at `place` or below; a user namespace must repeat the flags it finds."""
    for line in process_table.read("/proc/self/mountinfo").splitlines():
        point = os.fsdecode(line.split()[4].decode("unicode_escape").encode("latin-1"))
        if point == place or point.startswith(place + "/"):
            found = os.statvfs(point).f_flag
            kept = found & _KEPT_FLAGS | (_MS_RELATIME if found & _ST_RELATIME else 0)
            mount(None, point, flags=_MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept)


def _capabilities() -> int:
    for line in process_table.read("/proc/self/status").splitlines():
        if line.startswith(b"CapPrm:"):
            return int(line.split()[1], 16)
    return 0


def _bind(source: str, target: str) -> None:
    # Recursive: a user namespace may not take a folder apart from what is mounted inside it.
    mount(source, target, flags=_MS_BIND | _MS_REC)


def mount(
    source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str = ""
) -> None:
    returned = libc.mount(
        None if source is None else os.fsencode(source),
        os.fsencode(target),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        data.encode(),
    )
    check(returned, "mount", target)


def _write(path: str, text: str) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(text.encode(errors="surrogateescape"))


def check(returned: int, call: str, path: str | None = None) -> None:
    if returned != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}", path)


libc = ctypes.CDLL(None, use_errno=True)
