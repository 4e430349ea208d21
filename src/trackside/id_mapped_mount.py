"""A folder shown with another owner: an ID-mapped mount, since Linux 5.12.

So another user reads a folder that is closed to it otherwise, and no file changes. Runs inside a
sandbox's init, so it imports nothing slow.
"""

import ctypes
import os

from trackside.system.linux_calls import check, libc

# From <linux/mount.h>, <fcntl.h> and the table of system calls, the same for x86-64 and arm64.
_CLONE_NEWUSER = 0x10000000
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH = 4
_MOUNT_ATTR_IDMAP = 0x00100000
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000


def show(
    source: int,
    target: str,
    uid: int,
    gid: int,
    *,
    owner: tuple[int, int] = (0, 0),
    with_mounts: bool = False,
) -> None:
    """Mount the folder behind a descriptor at `target`, with `uid` and `gid` for what belongs to
    the user and the group `owner`; also what is mounted below it, if requested."""
    below = _AT_RECURSIVE if with_mounts else 0
    flags = _AT_EMPTY_PATH | _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | below
    tree = _called("open_tree", _OPEN_TREE, source, b"", flags)
    users = -1
    try:
        users = _mapping((owner[0], uid), (owner[1], gid))
        attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_IDMAP, 0, 0, users)
        size = ctypes.c_size_t(ctypes.sizeof(attributes))
        flags = _AT_EMPTY_PATH | below
        _called("mount_setattr", _MOUNT_SETATTR, tree, b"", flags, attributes, size)
        where = (_AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
        _called("move_mount", _MOVE_MOUNT, tree, b"", *where)
    finally:
        os.close(tree)
        if users >= 0:
            os.close(users)


def _mapping(user: tuple[int, int], group: tuple[int, int]) -> int:
    """A user namespace in which one id is mapped to another: the kernel's way to pass a mapping."""
    readable, writable = os.pipe()
    done, finish = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(finish)
        if libc.unshare(_CLONE_NEWUSER) == 0:
            os.write(writable, os.readlink("/proc/self").encode())  # our pid as this /proc has it
            os.read(done, 1)
        os._exit(0)
    os.close(writable)
    os.close(done)
    try:
        pid = os.read(readable, 32).decode()
        if not pid:
            raise OSError(0, "the kernel makes no user namespace")
        for name, (inside, outside) in (("uid_map", user), ("gid_map", group)):
            with open(f"/proc/{pid}/{name}", "wb", buffering=0) as file:
                file.write(f"{inside} {outside} 1\n".encode())
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
    finally:
        os.close(finish)
        os.close(readable)
        os.waitpid(child, 0)


def _called(name: str, number: int, *arguments: object) -> int:
    returned = int(libc.syscall(number, *arguments))
    check(min(returned, 0), name)
    return returned
