"""What a process sees on Linux: its own mounts, host name and /etc/hosts, made without a trace.

Runs inside the sandbox's init, so it imports nothing slow; errors are OSError with the path in it.
"""

import os
import sys

from trackside import process_table
from trackside.linux_calls import CLONE_NEWNS as _CLONE_NEWNS
from trackside.linux_calls import CLONE_NEWUSER as _CLONE_NEWUSER
from trackside.linux_calls import CLONE_NEWUTS as _CLONE_NEWUTS
from trackside.linux_calls import MS_MOVE as _MS_MOVE
from trackside.linux_calls import MS_NODEV as _MS_NODEV
from trackside.linux_calls import MS_NOSUID as _MS_NOSUID
from trackside.linux_calls import MS_REC as _MS_REC
from trackside.linux_calls import MS_SLAVE as _MS_SLAVE
from trackside.linux_calls import become_subreaper as become_subreaper
from trackside.linux_calls import bind as _bind
from trackside.linux_calls import capabilities as _capabilities
from trackside.linux_calls import check as _check
from trackside.linux_calls import die_with as die_with
from trackside.linux_calls import libc as _libc
from trackside.linux_calls import limit_capabilities as _limit_capabilities
from trackside.linux_calls import make_read_only as _make_read_only
from trackside.linux_calls import map_ids as _map_ids
from trackside.linux_calls import mount as _mount
from trackside.linux_calls import write as _write

ML = "/opt/ml"


def isolate(kind: str, stage: str, mark: str) -> None:
    """Give this process mounts and a host name of its own, and a small tmpfs at `stage`.

    `kind` is "root", or "user" for a user namespace in which the user keeps the own id. The tmpfs
    holds what is made up for this namespace; its source `mark` tells whose namespace it is.
    Nothing mounted here shows outside, and no capability stays that the user did not have.
    """
    had = _capabilities()
    user, group = os.geteuid(), os.getegid()
    spaces = _CLONE_NEWNS | _CLONE_NEWUTS | (_CLONE_NEWUSER if kind == "user" else 0)
    _check(_libc.unshare(spaces), "unshare")
    if kind == "user":
        _map_ids(user, group)
    # A slave and not private: volumes that the machine mounts later (automounted homes and
    # data) still appear in here, and nothing of ours goes back.
    _mount(None, "/", flags=_MS_SLAVE | _MS_REC)
    _mount(mark, stage, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755,size=16m")
    _limit_capabilities(had)


def arrange(
    stage: str, mounts: list[tuple[str, str]], read_only: list[str], host: str, hosts: str
) -> None:
    """Show each folder at its target, put `hosts` before the lines of /etc/hosts, name the host."""
    # Sources are opened before anything is covered: a mount may hide the way to the next one.
    sources = [(target, os.open(source, os.O_PATH)) for target, source in mounts]
    for target, source in sorted(sources):  # a folder before what is mounted inside it
        place = os.path.realpath(target)
        _provide(place, stage)
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
    _check(_libc.sethostname(name, len(name)), "sethostname")


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


def _provide(place: str, stage: str) -> None:
    """Make sure that something can be mounted at `place`, leaving the real file system alone.

    Where the user may write anyway, a folder is made, as the script itself would. `/`, `/opt` and
    folders closed to the user are covered by a view of themselves that takes the new entry.
    """
    if os.path.exists(place):
        return
    above = os.path.dirname(place)
    while not os.path.exists(above):
        above = os.path.dirname(above)
    if above in ("/", os.path.realpath("/opt")) or not os.access(above, os.W_OK):
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
        _mount(view, "/", flags=_MS_MOVE)
        os.chroot(".")
        os.chdir("/")
