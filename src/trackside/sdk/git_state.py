"""Reads the Git state of a job's code: the commit, its branch, its remote, and whether tracked
files were changed since.

All but the last is read from `.git` itself. Only `git` knows whether files were changed: it is
started if there is a `.git`, runs while the source is packed, and gets a short timeout. Nothing
here fails a job.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trackside.records.spec import BRANCH_MOST, COMMIT, REMOTE_MOST, GitState, JobSpec
from trackside.sdk.locations import is_remote
from trackside.sdk.program import has_source, is_script

if TYPE_CHECKING:  # imported only if there is a repository: most of a job's start is imports
    import subprocess

WAIT_SECONDS = 1.0
_MOST_REFERENCES = 10
"""Links from HEAD to a commit."""
_SECTION = re.compile(r'\s*\[remote\s+"(?P<name>[^"]*)"\]')
_URL = re.compile(r"\s*url\s*=\s*(?P<url>.*?)\s*$")
_STATUS = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "status")
_OF_TRACKED = ("--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")


@contextmanager
def reading_git(arguments: Mapping[str, Any]) -> Iterator["GitReader"]:
    """For the source folder of these estimator arguments; nothing for one in storage, and for an
    image's own program.
    """
    git = GitReader(_folder(arguments))
    try:
        yield git
    finally:
        git.close()


def _folder(arguments: Mapping[str, Any]) -> Path | None:
    source_dir = arguments.get("source_dir") or "."
    if not has_source(arguments) or is_remote(source_dir):
        return None
    folder = Path(os.path.expanduser(source_dir))
    if is_script(arguments):
        folder = (folder / os.path.expanduser(arguments["entry_point"])).parent
    return folder.absolute()


class GitReader:
    """A read in progress; `state` waits for the rest of it."""

    def __init__(self, folder: Path | None) -> None:
        self._repository = None if folder is None else _Repository.above(folder)
        self._status = None
        if folder is not None and self._repository is not None:
            self._status = _started(folder)

    def added_to(self, spec: JobSpec) -> JobSpec:
        state = self.state()
        return spec if state is None else replace(spec, options=replace(spec.options, git=state))

    def state(self) -> GitState | None:
        """None when the folder is in no repository, or in one without a commit."""
        changed = self._is_changed()
        if self._repository is None:
            return None
        commit, branch = self._repository.head()
        if not re.fullmatch(COMMIT, commit):
            return None
        remote = self._repository.remote()
        return GitState(
            commit=commit,
            branch=branch if branch and len(branch) <= BRANCH_MOST else None,
            is_changed=changed,
            remote=remote if remote and len(remote) <= REMOTE_MOST else None,
        )

    def _is_changed(self) -> bool | None:
        """None when git is missing, refuses, or takes too long."""
        if self._status is None:
            return None
        import subprocess

        try:
            output, _ = self._status.communicate(timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        return bool(output) if self._status.returncode == 0 else None

    def close(self) -> None:
        if self._status is not None and self._status.poll() is None:
            self._status.kill()
            self._status.communicate()


class _Repository:
    def __init__(self, git: Path) -> None:
        self._git = git
        """Of this working tree."""
        self._common = git
        """Of all working trees."""
        if common := _text(git / "commondir"):
            self._common = git / common

    @classmethod
    def above(cls, folder: Path) -> "_Repository | None":
        for each in (folder, *folder.parents):
            place = each / ".git"
            if place.is_dir():
                return cls(place)
            output = _text(place)
            if output.startswith("gitdir:"):  # a worktree, or a submodule
                return cls(each / output.removeprefix("gitdir:").strip())
        return None

    def head(self) -> tuple[str, str]:
        """The commit and the branch; "" if there is none."""
        text, branch = _text(self._git / "HEAD"), ""
        for _ in range(_MOST_REFERENCES):
            if not text.startswith("ref:"):
                return text, branch
            reference = text.removeprefix("ref:").strip()
            branch = branch or reference.removeprefix("refs/heads/")
            text = self._referred(reference)
        return "", branch

    def remote(self) -> str:
        """The address of `origin`, or of the only remote, without possible secrets."""
        found = dict(self._remotes())
        url = found.get("origin") or (next(iter(found.values())) if len(found) == 1 else "")
        return without_secrets(url)

    def _referred(self, reference: str) -> str:
        if ".." in reference or not reference.startswith("refs/"):
            return ""
        for folder in (self._git, self._common):
            if found := _text(folder / reference):
                return found
        for line in _text(self._common / "packed-refs").splitlines():
            commit, _, name = line.partition(" ")
            if name == reference:
                return commit
        return ""

    def _remotes(self) -> Iterator[tuple[str, str]]:
        name = ""
        for line in _text(self._common / "config").splitlines():
            if line.lstrip().startswith("["):
                section = _SECTION.match(line)
                name = section["name"] if section else ""
            elif name and (url := _URL.match(line)):
                yield name, url["url"].strip('"')


def without_secrets(url: str) -> str:
    """Also without the user of `https://`, which may be a token; `git@host:path` stays."""
    from urllib.parse import urlsplit, urlunsplit

    try:
        parts = urlsplit(url)
    except ValueError:  # not a usable address
        return ""
    if not parts.scheme or not parts.netloc:
        return url
    user, _, host = parts.netloc.rpartition("@")
    keeps_user = parts.scheme in ("ssh", "git+ssh") and user
    place = f"{user.partition(':')[0]}@{host}" if keeps_user else host
    return urlunsplit((parts.scheme, place, parts.path, "", ""))


def _started(folder: Path) -> "subprocess.Popen[bytes] | None":
    import subprocess

    with suppress(OSError):
        return subprocess.Popen(
            [*_STATUS, *_OF_TRACKED],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    return None


def _text(path: Path) -> str:
    """Empty if the file does not exist or is invalid."""
    with suppress(OSError, UnicodeDecodeError):
        return os.fsdecode(path.read_bytes()).strip()
    return ""
