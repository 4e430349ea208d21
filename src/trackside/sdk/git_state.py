"""Reads the Git state of a job's code: the commit, its branch, its remote, and how tracked files
were changed since.

All but the last is read from `.git` itself. Only `git` knows what was changed: it is started if
there is a `.git`, runs while the source is packed, and gets a short timeout. Nothing here fails a
job.
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
MOST_DIFF_BYTES = 1 << 20
_CUT = "[The rest of the change is left out.]\n"
_GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "diff.relative=false")
# Whatever the user's configuration says, and without programs that it names.
_DIFF = (
    *("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv", "-O/dev/null"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=dirty"),
)


@contextmanager
def reading_git(arguments: Mapping[str, Any]) -> Iterator["GitReader"]:
    """For the source folder of these estimator arguments; nothing for one in storage, and for an
    image's own program.
    """
    with git_of(_folder(arguments)) as git:
        yield git


@contextmanager
def git_of(folder: Path | None) -> Iterator["GitReader"]:
    git = GitReader(folder)
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
        self._folder = folder
        self._repository = None if folder is None else _Repository.above(folder)
        self._process = None
        self._change = b""
        self._is_whole = False
        if folder is not None and self._repository is not None:
            self._process = _started(folder)

    def added_to(self, spec: JobSpec) -> JobSpec:
        state = self.state()
        return spec if state is None else replace(spec, options=replace(spec.options, git=state))

    def state(self) -> GitState | None:
        """None when the folder is in no repository, or in one without a commit."""
        change = self._read_change()
        if self._repository is None:
            return None
        commit, branch = self._repository.head()
        if not re.fullmatch(COMMIT, commit):
            return None
        remote = self._repository.remote()
        return GitState(
            commit=commit,
            branch=branch if branch and len(branch) <= BRANCH_MOST else None,
            is_changed=None if change is None else bool(change),
            remote=remote if remote and len(remote) <= REMOTE_MOST else None,
        )

    def diff(self) -> bytes:
        """How tracked files differ from the commit, without secrets and without the content of
        binary files; empty if they do not, or it is unknown. Call `state` before.
        """
        if not self._change:
            return b""
        from trackside.texts.secret_names import mask_code

        text = self._change.decode(errors="replace")
        if not self._is_whole:
            text = text[: text.rfind("\n") + 1] + _CUT
        return mask_code(text).encode()

    @property
    def folder(self) -> str:
        """The source's folder: its path in the repository, else on this machine; "" for none."""
        if self._folder is None:
            return ""
        if self._repository is None or not self._repository.remote():
            return str(self._folder)
        return self._folder.relative_to(self._repository.root).as_posix()

    def _read_change(self) -> bytes | None:
        """What git prints, in bounds; None when git is missing, refuses, or takes too long to print
        anything."""
        if self._process is None:
            return None
        output, has_ended = _bounded_output(self._process, MOST_DIFF_BYTES)
        if has_ended and self._process.wait() != 0:
            return None
        self._change, self._is_whole = output, has_ended
        return output if output or has_ended else None

    def close(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process.wait()


class _Repository:
    def __init__(self, root: Path, git: Path) -> None:
        self.root = root
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
            if os.path.isdir(place):  # which raises nothing
                return cls(each, place)
            output = _text(place)
            if output.startswith("gitdir:"):  # a worktree, or a submodule
                return cls(each, each / output.removeprefix("gitdir:").strip())
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
            [*_GIT, *_DIFF],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    return None


def _bounded_output(process: "subprocess.Popen[bytes]", most: int) -> tuple[bytes, bool]:
    """What it prints until it ends, has printed so much, or takes too long; whether it ended."""
    import select
    import time

    assert process.stdout is not None
    pipe, output, deadline = process.stdout.fileno(), bytearray(), time.monotonic() + WAIT_SECONDS
    ready = select.poll()
    ready.register(pipe, select.POLLIN)
    while len(output) < most:
        left = deadline - time.monotonic()
        if left <= 0 or not ready.poll(left * 1000):
            return bytes(output), False
        piece = os.read(pipe, most - len(output))
        if not piece:
            return bytes(output), True
        output += piece
    return bytes(output), False


def _text(path: Path) -> str:
    """Empty if the file does not exist or is invalid."""
    with suppress(OSError, UnicodeDecodeError):
        return os.fsdecode(path.read_bytes()).strip()
    return ""
