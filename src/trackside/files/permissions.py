"""Permissions of files that Trackside writes: in TRACKSIDE_HOME for the owner only, elsewhere by
the user's umask.

Our own long-running processes set a private umask (`keep_private`), so that nothing they create is
accessible by mistake. The SDK and the CLI run in the user's process, whose umask we must not
change: what they create in TRACKSIDE_HOME gets its mode explicitly. The toolkit uses this, too, so
it imports nothing slow.
"""

from __future__ import annotations

import os

PRIVATE = 0o077
"""The umask that leaves access to the owner only."""
PRIVATE_FILE = 0o600
BY_UMASK = 0o666
"""The mode to request when the umask should decide."""
_FOLDER = 0o777

TYPE_CHECKING = False  # importing typing takes milliseconds
if TYPE_CHECKING:
    StrPath = str | os.PathLike[str]

_user_umask: int | None = None


def keep_private(given: str | None = None) -> str:
    """For our own processes, before they have threads: files are accessible to their owner only.

    `given` is the user's umask as returned by a parent process; without it, the current umask is
    the user's. Returns it for child processes.
    """
    global _user_umask
    present = os.umask(PRIVATE)
    _user_umask = present if given is None else int(given, 8)
    return f"{_user_umask:03o}"


def user_umask() -> int | None:
    """The umask for the user's files; None if it is this process's own."""
    return _user_umask


def open_file(path: StrPath, flags: int, umask: int | None = PRIVATE) -> int:
    """Like `os.open`; a new file gets the mode that this umask leaves, None being the process's."""
    mode = BY_UMASK if umask is None else BY_UMASK & ~umask
    descriptor = os.open(path, flags, mode)
    if umask is not None and mode & PRIVATE:
        os.fchmod(descriptor, mode)  # the process's own umask has taken more
    return descriptor


def private_opener(path: str, flags: int) -> int:
    """For `open(..., opener=private_opener)`."""
    return open_file(path, flags)


def make_folder(folder: StrPath, umask: int | None = PRIVATE) -> None:
    """Including missing parents. An existing one is not changed."""
    if umask is None:
        os.makedirs(folder, exist_ok=True)
        return
    missing = []
    path = os.fspath(folder)
    while not os.path.isdir(path):
        missing.append(path)
        above = os.path.dirname(path)
        if above == path or not above:
            break
        path = above
    for path in reversed(missing):
        _make_one(path, _FOLDER & ~umask)


def close_to_others(path: StrPath) -> int | None:
    """Remove all rights of other users from one's own file or folder.

    Returns its previous mode; None if there was nothing to do, or this user may not. A sticky
    folder, such as /tmp, is shared on purpose and stays so.
    """
    try:
        status = os.stat(path)
        mode = status.st_mode & 0o7777
        if status.st_uid != os.geteuid() or not mode & PRIVATE or mode & 0o1000:
            return None
        os.chmod(path, mode & ~PRIVATE)
    except OSError:
        return None
    return mode


def close_tree_to_others(folder: StrPath) -> None:
    """For files that another program has created with its own modes."""
    for path, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            inner = os.path.join(path, name)
            if not os.path.islink(inner):
                close_to_others(inner)


def _make_one(path: str, mode: int) -> None:
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return
    if mode & PRIVATE:
        os.chmod(path, mode)  # the process's own umask has taken more
