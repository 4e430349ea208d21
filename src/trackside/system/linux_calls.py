"""System calls of Linux that Python's library lacks: namespaces, mounts, privileges, disk space.

For processes that must start fast, so it imports next to nothing. Errors are OSError with the path.
The callers decide what to mount and which privileges to drop.
"""

import ctypes
import os

from trackside.system import process_table

# From <sched.h>, <sys/mount.h>, <sys/prctl.h> and <linux/capability.h>; the same on x86-64 and
# arm64.
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC = 32, 4096, 8192, 16384
MS_SLAVE = 1 << 19
_MS_NOATIME, _MS_NODIRATIME = 1024, 2048
_MS_RELATIME = 1 << 21
_ST_RELATIME = 4096  # the other flags have the same value in statvfs() as in mount()
_KEPT_FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC | _MS_NOATIME | _MS_NODIRATIME
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_LAST_CAPABILITY = 63
_CAPABILITY_VERSION_3 = 0x20080522
_SIGKILL = 9
_FALLOC_KEEP_SIZE = 1

libc = ctypes.CDLL(None, use_errno=True)


def check(returned: int, call: str, path: str | None = None) -> None:
    if returned != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}", path)


def unshare(spaces: int) -> None:
    check(libc.unshare(spaces), "unshare")


def map_ids(user: int, group: int) -> None:
    """In a new user namespace: keep the current user and group, and no others."""
    write("/proc/self/setgroups", "deny")  # required by the kernel before gid_map
    write("/proc/self/uid_map", f"{user} {user} 1")
    write("/proc/self/gid_map", f"{group} {group} 1")


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


def bind(source: str, target: str) -> None:
    # Recursive: a user namespace may not bind a folder without the mounts inside it.
    mount(source, target, flags=MS_BIND | MS_REC)


def mount_point(line: bytes) -> str:
    """Of a line of `mountinfo`, where the kernel writes blanks in octal."""
    return os.fsdecode(line.split()[4].decode("unicode_escape").encode("latin-1"))


def make_read_only(place: str) -> None:
    """Everything mounted at `place` or below; a user namespace must repeat the existing flags."""
    for line in process_table.read("/proc/self/mountinfo").splitlines():
        point = mount_point(line)
        if point == place or point.startswith(place.rstrip("/") + "/"):
            found = os.statvfs(point).f_flag
            kept = found & _KEPT_FLAGS | (_MS_RELATIME if found & _ST_RELATIME else 0)
            mount(None, point, flags=MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def detach(place: str) -> None:
    """Unmount it lazily; files that are open stay usable."""
    check(libc.umount2(os.fsencode(place), _MNT_DETACH), "umount2", place)


def change_root(place: str, old: str) -> None:
    """Make the mount at `place` this namespace's root; `old`, a folder in it, is used temporarily.

    The former root cannot be reached afterwards.
    """
    check(libc.pivot_root(os.fsencode(place), os.fsencode(old)), "pivot_root", place)
    os.chdir("/")
    detach("/" + os.path.relpath(old, place))


def become_subreaper() -> None:
    """Orphans among our descendants become our children instead of the machine's init's."""
    check(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def die_with(parent: int, number: int = _SIGKILL) -> None:
    """Have the kernel signal this process when its parent ends; exit now if it already has."""
    check(libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        os._exit(1)


def set_dumpable(is_dumpable: bool) -> None:
    """Whether processes of the same user may inspect this one; a change of user resets it."""
    check(libc.prctl(_PR_SET_DUMPABLE, int(is_dumpable), 0, 0, 0), "prctl")


def capabilities() -> int:
    """The capabilities of this process, as a bit mask."""
    for line in process_table.read("/proc/self/status").splitlines():
        if line.startswith(b"CapPrm:"):
            return int(line.split()[1], 16)
    return 0


def limit_capabilities(kept: int) -> None:
    """No program that this process starts will have others."""
    for capability in range(_LAST_CAPABILITY + 1):
        if not kept >> capability & 1:
            libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def give_up_privileges() -> None:
    """Permanent: no capability remains, and no program that is started regains any."""
    limit_capabilities(0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    check(libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
    check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def reserve(descriptor: int, start: int, size_bytes: int) -> None:
    """Have the file system allocate space for these bytes; the file's size is unchanged."""
    returned = libc.fallocate(
        descriptor, _FALLOC_KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(size_bytes)
    )
    check(returned, "fallocate")


def write(path: str, text: str) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(text.encode(errors="surrogateescape"))
