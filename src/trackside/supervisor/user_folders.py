"""Folders of a job that runs as another user: its /opt/ml, and folders for what it writes
elsewhere. It reaches them only through mounts; their real paths are inaccessible to it.

`run_as` chooses the user; the sandbox switches the command to it.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import trackside
from trackside.errors import InvalidSetting, SandboxError
from trackside.quick_dataclass import dataclass
from trackside.records.journal import History
from trackside.records.layout import Home, HostFolder
from trackside.records.owners import Submitter
from trackside.system.run_as import JobUser, find_user

PLACE = "/opt/.trackside"
"""Where the script sees `HostFolder.private`."""
_TEMPORARY = {"/tmp": "tmp", "/var/tmp": "var-tmp"}
HOME = "home"
"""The name of a home in it, for users that have none."""
_OVERLAYS = "overlays"
_OURS = ("TMPDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
"""Variables that point to folders of the supervisor's user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFolders:
    user: JobUser
    folder: HostFolder
    overlays: Path
    """Environments for requirements, which this user's jobs of one owner share."""
    has_home: bool
    """Whether the job may use the user's real home; else it gets an empty one."""

    def make(self) -> None:
        """Create them, and hand over the script's layout. May be repeated before its start."""
        for name in (*_TEMPORARY.values(), HOME, _OVERLAYS):
            (self.folder.private / name).mkdir(parents=True, exist_ok=True)
        self.overlays.mkdir(parents=True, exist_ok=True)
        for path in (self.folder.ml, self.folder.mounts, self.folder.private):
            hand_over(path, self.user)
        os.chown(self.overlays, self.user.uid, self.user.gid)
        self.overlays.chmod(0o700)

    def mounts(self, python: str) -> dict[str, Path]:
        """By the path the script sees. A temporary folder that contains the interpreter or
        Trackside itself is left as it is.
        """
        private = self.folder.private
        shown = {PLACE: private, f"{PLACE}/{_OVERLAYS}": self.overlays}
        needed = [shutil.which(python) or python, trackside.__file__]
        needed += [os.path.realpath(path) for path in needed]
        for place, name in _TEMPORARY.items():
            if os.path.isdir(place) and not any(path.startswith(place + "/") for path in needed):
                shown[place] = private / name
        return shown

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The given environment, with this user's own values instead of ours."""
        home = self.user.home if self.has_home and self.user.home else f"{PLACE}/{HOME}"
        kept = {name: value for name, value in given.items() if name not in _OURS}
        return kept | {
            "HOME": home,
            "USER": self.user.name,
            "LOGNAME": self.user.name,
            "TRACKSIDE_HOME": f"{home}/.trackside",
            "TRACKSIDE_OVERLAYS": f"{PLACE}/{_OVERLAYS}",
            "TRACKSIDE_EXIT_RECORD": f"{PLACE}/{self.folder.exit_record.name}",
        }


def user_folders(history: History, folder: HostFolder, home: Home) -> UserFolders | None:
    """None for a job that runs as ourselves; `SandboxError` when its user no longer exists."""
    choice = history.run_as
    if not choice.user:
        return None
    try:
        user = find_user(choice.user)
    except InvalidSetting as error:
        raise SandboxError(str(error)) from error
    return UserFolders(
        user=user,
        folder=folder,
        overlays=home.overlays_of(user.uid, Submitter.of(history).owner),
        has_home=not choice.is_shared,
    )


def hand_over(path: Path, user: JobUser) -> None:
    """Make the user the owner of everything in it; links are not followed."""
    if not path.exists():
        return
    os.chown(path, user.uid, user.gid)
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            os.chown(os.path.join(folder, name), user.uid, user.gid, follow_symlinks=False)
