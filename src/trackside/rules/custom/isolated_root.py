"""Builds the root file system of a custom rule: Python, and scratch space to write to.

Runs in the first process of the new namespaces, with the right to mount; nothing is visible
outside.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from trackside import id_mapped_mount
from trackside.rules.custom.confinement import SCRATCH, Plan, is_inside
from trackside.system import linux_calls as linux
from trackside.system import process_table

_DEVICES = ("null", "zero", "full", "random", "urandom")
_GUARDED = linux.MS_NOSUID | linux.MS_NODEV


def populate(plan: Plan, user: int | None = None) -> None:
    """Replace the whole visible file system. `OSError` if the system does not allow all of it.

    If root started the rule, Python's folders are shown as owned by `user`: they may be readable by
    their owner only.
    """
    before = os.umask(0o022)  # the rule's user must be able to traverse the folders above Python
    try:
        _populate(plan, user)
    finally:
        os.umask(before)


def _populate(plan: Plan, user: int | None) -> None:
    linux.mount(None, "/", flags=linux.MS_SLAVE | linux.MS_REC)
    # Opened before anything is mounted over: a mount may hide the path of the next one.
    devices = filter(os.path.exists, (f"/dev/{name}" for name in _DEVICES))
    python = () if user is None else plan.python
    paths = sorted({*plan.views, *devices, *python})
    views = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths}
    owners = dict.fromkeys(python, user)
    stage = os.path.realpath("/tmp")  # which every user can traverse
    mark = process_table.MOUNT_PREFIX + plan.mark
    linux.mount(mark, stage, "tmpfs", _GUARDED, "mode=755,size=4m")
    _make_scratch(stage, mark, plan.memory_bytes)  # before the views, of which some may be in /tmp

    def show(path: str) -> None:
        _show(stage, path, views[path], owners.get(path))

    _show_all(stage, paths, plan.hidden, mark, show)
    _make_proc(stage)
    os.mkdir(f"{stage}/.old")
    linux.change_root(stage, f"{stage}/.old")
    os.rmdir("/.old")
    linux.mount(None, "/", flags=linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | _GUARDED)


def _make_scratch(stage: str, mark: str, size_bytes: int) -> None:
    """/tmp and /dev/shm on one file system in memory: its content counts as memory."""
    whole = f"{stage}/.scratch"
    os.mkdir(whole)
    options = f"mode=755,size={size_bytes},nr_inodes=65536"
    linux.mount(mark, whole, "tmpfs", _GUARDED, options)
    for number, place in enumerate(SCRATCH):
        os.mkdir(f"{whole}/{number}")
        os.chmod(f"{whole}/{number}", 0o1777)
        os.makedirs(stage + place, exist_ok=True)
        linux.bind(f"{whole}/{number}", stage + place)
    linux.detach(whole)
    os.rmdir(whole)


def _show_all(
    stage: str, paths: Sequence[str], hidden: str, mark: str, show: Callable[[str], None]
) -> None:
    """Of hidden folders, only the views inside them."""
    for path in paths:
        if not is_inside(path, hidden):
            show(path)
    is_covered = any(is_inside(hidden, path) for path in paths)
    if is_covered:
        linux.mount(mark, stage + hidden, "tmpfs", _GUARDED, "mode=755,size=1m")
    for path in paths:
        if is_inside(path, hidden):
            show(path)
    if is_covered:
        linux.make_read_only(stage + hidden)


def _show(stage: str, path: str, descriptor: int, user: int | None) -> None:
    source, target = f"/proc/self/fd/{descriptor}", stage + path
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        linux.write(target, "")
    if user is None or not _is_shown_as_own(descriptor, target, user):
        linux.bind(source, target)
    os.close(descriptor)
    if path.startswith("/dev/"):
        return  # writes to these change nothing
    linux.make_read_only(target)
    if not os.statvfs(target).f_flag & os.ST_RDONLY:
        raise OSError(0, "it cannot be made read-only", path)


def _is_shown_as_own(descriptor: int, target: str, user: int) -> bool:
    """False if the kernel or file system does not support it: then files must be world-readable."""
    found = os.fstat(descriptor)
    owner = (found.st_uid, found.st_gid)
    try:
        id_mapped_mount.show(descriptor, target, user, user, owner=owner, with_mounts=True)
    except OSError:
        return False
    return True


def _make_proc(stage: str) -> None:
    os.mkdir(f"{stage}/proc")
    flags = _GUARDED | linux.MS_NOEXEC | linux.MS_RDONLY
    with suppress(OSError):  # masked in some containers; Python copes
        linux.mount("proc", f"{stage}/proc", "proc", flags)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"{stage}/dev/{name}")
    os.symlink("/proc/self/fd", f"{stage}/dev/fd")
