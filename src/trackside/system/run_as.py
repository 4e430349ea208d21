"""Which user of the machine runs a job's script, if not the server's own.

Reads TRACKSIDE_RUN_AS and the system's list of users. The sandbox switches processes to that user;
a job's owner is in its journal.
"""

import os
import pwd
import re
from collections.abc import Mapping
from dataclasses import field

from trackside.errors import InvalidSetting
from trackside.quick_dataclass import dataclass

_NUMBERS = re.compile(r"(\d+)(?::(\d+))?")
_SETTING = "TRACKSIDE_RUN_AS (--run-as)"
_LARGEST_ID = 2**32 - 2
_FORM = "Give USER, or LABEL=USER for the jobs of one access key, separated by commas."


@dataclass(frozen=True, slots=True)
class Choice:
    """The user of a job, as in the setting and in the job's journal."""

    user: str = ""
    """A name or UID[:GID]; empty is the server's own user."""
    is_shared: bool = True
    """Whether jobs of other labels run as the same user by default: then it has no home in which
    one job could leave files for the next.
    """


@dataclass(frozen=True, slots=True)
class RunAs:
    """The setting: a user for each label named, and one for all others."""

    default: str = ""
    of_label: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "RunAs":
        """`alice`, `ci=ci-user,team=alice,trackside-jobs`. `InvalidSetting` for anything else."""
        default = ""
        of_label: dict[str, str] = {}
        for entry in filter(None, (part.strip() for part in text.split(","))):
            label, equals, user = (part.strip() for part in entry.rpartition("="))
            if not user or equals and not label:
                raise InvalidSetting(f"{_SETTING} has {entry!r}. {_FORM}")
            known = of_label.get(label) if equals else default
            if known and known != user:
                whose = f"the label {label!r}" if equals else "all other jobs"
                raise InvalidSetting(
                    f"{_SETTING} names {known!r} and {user!r} for {whose}. Name one of them."
                )
            if equals:
                of_label[label] = user
            else:
                default = user
        return cls(default, of_label)

    def choose(self, owner: str) -> Choice:
        """For a job of this owner: a label, or a user of this machine (`owners`)."""
        if own := self.of_label.get(owner):
            return Choice(own, is_shared=False)
        return Choice(self.default)

    @property
    def users(self) -> list[str]:
        return sorted({*filter(None, [self.default]), *self.of_label.values()})


@dataclass(frozen=True, slots=True)
class JobUser:
    """A user as the kernel knows one."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str | None = None
    """Its own folder, where there is one."""

    @property
    def numbers(self) -> tuple[int, int, list[int]]:
        """User, group and groups, for a program that resolves no names."""
        return self.uid, self.gid, list(self.groups)

    def __str__(self) -> str:
        return repr(self.name)


def find_user(text: str) -> JobUser:
    """By name, or by UID[:GID] whether or not the system has a name for it.

    `InvalidSetting` for an unknown user, and for root: a job never gets root's rights.
    """
    numbers = _NUMBERS.fullmatch(text)
    entry = _entry_of(text if numbers is None else int(numbers[1]))
    if numbers is None and entry is None:
        raise InvalidSetting(
            f"{_SETTING} names the user {text!r}, whom this system does not know. Make one with "
            f"`useradd --system {text}`, or name another."
        )
    uid = entry.pw_uid if entry is not None else int(text.partition(":")[0])
    if numbers is not None and numbers[2]:
        gid = int(numbers[2])
    else:
        gid = entry.pw_gid if entry is not None else uid
    if not (uid <= _LARGEST_ID and gid <= _LARGEST_ID):
        raise InvalidSetting(f"{_SETTING} has {text!r}: ids end at {_LARGEST_ID}.")
    if entry is None:
        return _without_rights(JobUser(text, uid, gid, (gid,)), text)
    groups = tuple(os.getgrouplist(entry.pw_name, gid))
    home = entry.pw_dir if _owns(uid, entry.pw_dir) else None
    return _without_rights(JobUser(entry.pw_name, uid, gid, groups, home), text)


def _entry_of(who: str | int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(who) if isinstance(who, int) else pwd.getpwnam(who)
    except (KeyError, OverflowError):
        return None


def _without_rights(user: JobUser, text: str) -> JobUser:
    if user.uid == 0 or 0 in (user.gid, *user.groups):
        what = "root" if user.uid == 0 else "in root's group"
        raise InvalidSetting(
            f"{_SETTING} names {text!r}, which is {what}: jobs would be able to read what is kept "
            "from them. Name a user without rights of its own."
        )
    return user


def _owns(uid: int, folder: str) -> bool:
    try:
        return os.stat(folder).st_uid == uid
    except OSError:
        return False
