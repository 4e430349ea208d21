"""A folder of root's shown as another user's: an ID-mapped mount, since Linux 5.12.

So a job that runs as another user reads a bucket in place, which is closed to that user otherwise.
Runs inside the sandbox's init, so it imports nothing slow.
"""

import ctypes
import os
import sys

from trackside.supervisor.namespaces import isolate
from trackside.system.linux_calls import check, libc

# From <linux/mount.h>, <fcntl.h> and the table of system calls, the same for x86-64 and arm64.
_CLONE_NEWUSER = 0x10000000
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH = 4
_MOUNT_ATTR_IDMAP = 0x00100000
_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000


def show(source: int, target: str, uid: int, gid: int) -> None:
    """Mount the folder behind a descriptor at `target`, with `uid` and `gid` for root's."""
    flags = _AT_EMPTY_PATH | _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC
    tree = _called("open_tree", _OPEN_TREE, source, b"", flags)
    users = _mapping(uid, gid)
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_IDMAP, 0, 0, users)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    _called("mount_setattr", _MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, attributes, size)
    where = (_AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    _called("move_mount", _MOVE_MOUNT, tree, b"", *where)
    os.close(users)
    os.close(tree)


def main() -> None:
    """Try it, unseen by others: `python ... owner_mapping STAGE FOLDER UID GID` prints "yes"."""
    stage, folder, uid, gid = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    isolate("root", stage, "trackside-trial")
    source = os.open(folder, os.O_PATH)
    show(source, folder, uid, gid)
    if os.stat(folder).st_uid == uid:
        os.write(1, b"yes")


def _mapping(uid: int, gid: int) -> int:
    """A user namespace in which root stands for this user: that is how the kernel is told."""
    told, tell = os.pipe()
    done, finish = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(finish)
        if libc.unshare(_CLONE_NEWUSER) == 0:
            os.write(tell, os.readlink("/proc/self").encode())  # our pid as this /proc has it
            os.read(done, 1)
        os._exit(0)
    os.close(tell)
    os.close(done)
    try:
        pid = os.read(told, 32).decode()
        if not pid:
            raise OSError(0, "the kernel makes no user namespace")
        for name, number in (("uid_map", uid), ("gid_map", gid)):
            with open(f"/proc/{pid}/{name}", "wb", buffering=0) as file:
                file.write(f"0 {number} 1\n".encode())
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
    finally:
        os.close(finish)
        os.close(told)
        os.waitpid(child, 0)


def _called(name: str, number: int, *arguments: object) -> int:
    returned = int(libc.syscall(number, *arguments))
    check(min(returned, 0), name)
    return returned
