"""Whether some process has a file open for writing.

Detected by a read lease, which the kernel grants only on a file that no process has open for
writing. The lease is released at once.
"""

import errno
import fcntl
import signal


def has_writer(descriptor: int) -> bool:
    """For a file that is open for reading only.

    False also if the file system does not support leases: the file's age has to suffice there.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    except AttributeError:  # not Linux
        return False
    else:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return False


def ignore_lease_breaks() -> None:
    """Call before the first check. When a process opens a file that has a lease, the kernel sends
    us a signal that ends the process unless it is ignored."""
    if hasattr(signal, "SIGIO"):
        signal.signal(signal.SIGIO, signal.SIG_IGN)
