"""Isolation of a command that runs as another user, beyond `namespaces.py`: its own processes,
/dev/shm and IPC, then only that user's rights, permanently.

Runs inside the sandbox's init, as root and in mounts that the job can influence: nothing is
imported or resolved by name here, and no privilege of root is left when the command starts.
"""

import os

from trackside.system.linux_calls import (
    CLONE_NEWPID,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    check,
    give_up_privileges,
    libc,
    limit_capabilities,
    mount,
    unshare,
)

# From <sys/prctl.h> and <linux/keyctl.h>.
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_KEYCTL_JOIN_SESSION_KEYRING = 1
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_UMASK = 0o022

User = tuple[int, int, list[int]]
"""User, group and all groups, as numbers."""


def begin_process_space() -> int:
    """The next child of this process becomes the first in a new PID namespace.

    Pass the result to `end_process_space`, so that later children stay in our namespace.
    """
    ours = os.open("/proc/self/ns/pid", os.O_RDONLY)
    unshare(CLONE_NEWPID)
    return ours


def end_process_space(ours: int) -> None:
    check(libc.setns(ours, CLONE_NEWPID), "setns")
    os.close(ours)


def see_own_processes() -> int:
    """Show only the processes of this PID namespace, and private shared memory.

    Returns this process's pid outside the namespace, which /proc shows until it is mounted over.
    """
    pid = int(os.readlink("/proc/self"))
    flags = MS_NOSUID | MS_NODEV
    if os.path.isdir("/dev/shm"):
        mount("trackside-shm", os.path.realpath("/dev/shm"), "tmpfs", flags, "mode=1777")
    mount("proc", "/proc", "proc", flags | MS_NOEXEC)
    return pid


def become(user: User) -> None:
    """Switch to this user permanently. No program started regains rights, not even by setuid."""
    uid, gid, groups = user
    _leave_keyring()
    limit_capabilities(0)
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    give_up_privileges()  # also the inheritable ones, which a change of user keeps
    os.umask(_UMASK)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise OSError(0, f"the kernel kept rights of uid {os.getuid()}")


def _leave_keyring() -> None:
    """Keys of the server's session are accessible to every process that inherits it. A kernel
    without keyrings refuses the call, and has none to leave.
    """
    number = _KEYCTL.get(os.uname().machine)
    if number is not None:
        libc.syscall(number, _KEYCTL_JOIN_SESSION_KEYRING, None)
