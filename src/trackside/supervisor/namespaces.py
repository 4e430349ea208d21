"""A process's private mounts, host name and /etc/hosts on Linux, invisible outside.

Runs inside the sandbox's init, so it imports nothing slow; errors are OSError with the path.
`confinement.py` has what a command that runs as another user needs besides.
"""

import os
import sys

from trackside.system import process_table
from trackside.system.linux_calls import (
    CLONE_NEWIPC,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    MS_MOVE,
    MS_NODEV,
    MS_NOSUID,
    MS_REC,
    MS_SLAVE,
    bind,
    capabilities,
    check,
    libc,
    limit_capabilities,
    make_read_only,
    map_ids,
    mount,
    mount_point,
    unshare,
    write,
)

ML = "/opt/ml"

TYPE_CHECKING = False  # importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable

    Show = Callable[[str, int, str], bool]
    """Mounts the folder behind a descriptor for a target, at a path; False if it does not."""


def isolate(kind: str, stage: str, mark: str, *, shares_ipc: bool = True) -> str:
    """Give this process private mounts and a host name, and a small tmpfs at `stage`.

    `kind` is "root", or "user" for a user namespace in which the user keeps its id. The tmpfs holds
    the files created for this namespace; its source `mark` identifies the namespace. No mount is
    visible outside, and no capability remains that the user did not have. Returns a path to the
    tmpfs that stays valid when folders above it are mounted over.
    """
    had = capabilities()
    user, group = os.geteuid(), os.getegid()
    spaces = CLONE_NEWNS | CLONE_NEWUTS | (CLONE_NEWUSER if kind == "user" else 0)
    spaces |= 0 if shares_ipc else CLONE_NEWIPC
    unshare(spaces)
    if kind == "user":
        map_ids(user, group)
    # A slave and not private: volumes that the machine mounts later (automounted homes and data)
    # still appear here, and our mounts do not propagate back.
    mount(None, "/", flags=MS_SLAVE | MS_REC)
    mount(mark, stage, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=16m")
    limit_capabilities(had)
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
    """Mount each folder at its target, prepend `hosts` to /etc/hosts, set the host name.

    `owner` is the user who will see it, if not the current one. `show` may mount in its own way;
    what it declines is bind-mounted.
    """
    before = os.umask(0o022)
    # Sources are opened before anything is mounted over: a mount may hide the path of the next one.
    sources = [(target, os.open(source, os.O_PATH)) for target, source in mounts]
    taken = _mount_points_around()
    for target, source in sorted(sources):  # a folder before what is mounted inside it
        place = os.path.realpath(target)
        if place in taken:
            _cover_with_view(os.path.dirname(place), stage, without=os.path.basename(place))
            taken = {each for each in taken if not f"{each}/".startswith(f"{place}/")}
        _provide(place, stage, owner)
        if show is None or not show(target, source, place):
            bind(f"/proc/self/fd/{source}", place)
        os.close(source)
        if target in read_only:
            make_read_only(place)
    write(
        f"{stage}/hosts", hosts + process_table.read("/etc/hosts").decode(errors="surrogateescape")
    )
    if os.path.exists("/etc/hosts"):
        bind(f"{stage}/hosts", os.path.realpath("/etc/hosts"))
    name = host.encode()
    check(libc.sethostname(name, len(name)), "sethostname")
    os.umask(before)


def main() -> None:
    """Try each kind in a separate process: `python ... namespaces STAGE KIND...`.

    Prints a line per kind: its name and, if it does not work, a colon and why.
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
    """Make sure that something can be mounted at `place`, without changing the real file system.

    If the user may write there anyway, a folder is created, as the script itself would. `/`, `/opt`
    and folders that the user cannot write to are covered by a view of themselves with the new
    entry; for another user, `owner`, all folders that it does not own.
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


def _mount_points_around() -> set[str]:
    """If this sandbox is started from inside another one: where that has mounts.

    A mount over a folder of that job would disappear when the job ends and its folder is removed.
    """
    mounts = process_table.read("/proc/self/mountinfo").splitlines()
    mark = process_table.MOUNT_PREFIX.encode()
    sources = [line.partition(b" - ")[2].split()[1] for line in mounts]
    if sum(source.startswith(mark) for source in sources) < 2:  # one is ours
        return set()
    return set(map(mount_point, mounts)) - {"/"}


def _cover_with_view(folder: str, stage: str, *, without: str = "") -> None:
    """Mount over a folder a new one with the same entries, each bound to the real one, but for
    `without`."""
    view = f"{stage}/view-{len(os.listdir(stage))}"
    os.mkdir(view)
    for entry in os.scandir(folder):
        if entry.name == without:
            continue
        copy = f"{view}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), copy)
            continue
        if entry.is_dir():
            os.mkdir(copy)
        else:
            write(copy, "")
        bind(entry.path, copy)
    os.chmod(view, os.stat(folder).st_mode & 0o7777)
    bind(view, view if folder == "/" else folder)
    if folder == "/":
        os.chdir(view)
        mount(view, "/", flags=MS_MOVE)
        os.chroot(".")
        os.chdir("/")
