"""What there is in a custom rule's box: a root with Python in it, and a place to write.

Runs in the first process of the new namespaces, with the rights to mount; nothing of it shows
outside.
"""

import os
from contextlib import suppress

from trackside.rules.custom.confinement import SCRATCH, Plan, is_inside
from trackside.system import linux_calls as linux
from trackside.system import process_table

_DEVICES = ("null", "zero", "full", "random", "urandom")
_GUARDED = linux.MS_NOSUID | linux.MS_NODEV


def furnish(plan: Plan) -> None:
    """Replace all that can be seen. `OSError` when the system does not let us, or not wholly."""
    linux.mount(None, "/", flags=linux.MS_SLAVE | linux.MS_REC)
    # Opened before anything is covered: a mount may hide the way to the next one.
    views = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in plan.views}
    for path in filter(os.path.exists, (f"/dev/{name}" for name in _DEVICES)):
        views[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
    stage = os.path.realpath("/tmp")  # which everybody can find
    mark = process_table.MOUNT_PREFIX + plan.mark
    linux.mount(mark, stage, "tmpfs", _GUARDED, "mode=755,size=4m")
    _make_scratch(stage, mark, plan.memory_bytes)  # before the views, of which some may be in /tmp
    _show_all(stage, views, plan.hidden, mark)
    _make_proc(stage)
    os.mkdir(f"{stage}/.old")
    linux.change_root(stage, f"{stage}/.old")
    os.rmdir("/.old")
    linux.mount(None, "/", flags=linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | _GUARDED)


def _make_scratch(stage: str, mark: str, size_bytes: int) -> None:
    """/tmp and /dev/shm, of one file system: what is in it counts as memory."""
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


def _show_all(stage: str, views: dict[str, int], hidden: str, mark: str) -> None:
    """Of what is hidden, only the views that are in it."""
    for path, descriptor in views.items():
        if not is_inside(path, hidden):
            _show(stage, path, descriptor)
    is_covered = any(is_inside(hidden, path) for path in views)
    if is_covered:
        linux.mount(mark, stage + hidden, "tmpfs", _GUARDED, "mode=755,size=1m")
    for path, descriptor in views.items():
        if is_inside(path, hidden):
            _show(stage, path, descriptor)
    if is_covered:
        linux.make_read_only(stage + hidden)


def _show(stage: str, path: str, descriptor: int) -> None:
    source, target = f"/proc/self/fd/{descriptor}", stage + path
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        linux.write(target, "")
    linux.bind(source, target)
    os.close(descriptor)
    if path.startswith("/dev/"):
        return  # writing to these changes nothing
    linux.make_read_only(target)
    if not os.statvfs(target).f_flag & os.ST_RDONLY:
        raise OSError(0, "it cannot be made read-only", path)


def _make_proc(stage: str) -> None:
    os.mkdir(f"{stage}/proc")
    flags = _GUARDED | linux.MS_NOEXEC | linux.MS_RDONLY
    with suppress(OSError):  # a container that hides parts of its own gives none; Python copes
        linux.mount("proc", f"{stage}/proc", "proc", flags)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"{stage}/dev/{name}")
    os.symlink("/proc/self/fd", f"{stage}/dev/fd")
