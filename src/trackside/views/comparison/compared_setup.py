"""What a job is made of as single facts, so that jobs can be compared one fact at a time."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trackside.errors import TracksideError
from trackside.jobs.described_locations import num_hosts_of
from trackside.texts.quantities import size
from trackside.texts.secret_names import hidden, hide_in_arguments
from trackside.views.job_setup import code_files
from trackside.views.job_setup.recorded import Recorded
from trackside.views.job_setup.repeat_command import own_parameters
from trackside.views.job_setup.setup import ChannelFacts, channels_of, git_of, image_of
from trackside.views.query.search_conditions import as_parameters, unnamed_words

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

KINDS = ("hyperparameter", "argument", "code", "git", "package", "data", "environment", "host")
"""In the order in which they are shown."""
RECORDED = ("code", "git", "package", "host")
"""A job without any of such a kind was not recorded: it differs from no other."""
_DIGITS = 8
_Key = tuple[str, str]
"""Kind and name."""


@dataclass(frozen=True, slots=True)
class Fact:
    value: str
    """What is compared."""
    shown: str
    """The same without secrets."""


Facts = Mapping[_Key, Fact]


def facts_of(jobs: "JobReader", described: Mapping[str, Any]) -> Facts:
    """What cannot be read is left out."""
    recorded = Recorded(described, jobs.settings.home)
    parts = (
        _parameters(described),
        _arguments(described),
        _code(jobs, described),
        _git(described, recorded),
        _packages(recorded),
        _data(described, recorded),
        _environment(described),
        _host(described, recorded),
    )
    return {
        (kind, name): fact for kind, found in zip(KINDS, parts, strict=True) for name, fact in found
    }


def _parameters(described: Mapping[str, Any]) -> Iterator[tuple[str, Fact]]:
    for name, value in own_parameters(described).items():
        yield name, Fact(value, hidden(name, value))


def _arguments(described: Mapping[str, Any]) -> Iterator[tuple[str, Fact]]:
    """Each by its name, and those without one together."""
    options = described["Trackside"]["options"]
    words = list(options.get("Arguments") or options.get("Command") or ())
    for name, value in as_parameters(words).items():
        yield name, Fact(value, hidden(name, value))
    if unnamed := unnamed_words(words):
        yield "words", Fact(shlex.join(unnamed), shlex.join(hide_in_arguments(unnamed)))


def _code(jobs: "JobReader", described: Mapping[str, Any]) -> Iterator[tuple[str, Fact]]:
    try:
        for path, digest in code_files.digests_of(described, jobs.settings.home).items():
            yield path, Fact(digest, digest[:_DIGITS])
    except (TracksideError, OSError):
        return


def _git(described: Mapping[str, Any], recorded: Recorded) -> Iterator[tuple[str, Fact]]:
    git = git_of(described["Trackside"]["options"], recorded)
    if git is None:
        return
    changes = {True: "with changes", False: "clean", None: ""}[git.is_changed]
    given = {"commit": git.commit, "branch": git.branch, "remote": git.remote, "state": changes}
    yield from ((name, _plain(value)) for name, value in given.items() if value)


def _packages(recorded: Recorded) -> Iterator[tuple[str, Fact]]:
    found = recorded.packages()
    if found is not None:
        yield "python", _plain(found.python)
        yield from ((name, _plain(version)) for name, version in found.packages.items())


def _data(described: Mapping[str, Any], recorded: Recorded) -> Iterator[tuple[str, Fact]]:
    for channel in channels_of(described, recorded):
        shown = _shown_channel(channel)
        yield channel.name, Fact(f"{channel.location} {channel.mode} {channel.digest}", shown)


def _shown_channel(channel: ChannelFacts) -> str:
    known = []
    if channel.files is not None and channel.bytes is not None:
        known.append(f"{channel.files:,} files, {size(channel.bytes)}")
    if channel.digest:
        known.append(channel.digest[:_DIGITS])
    return f"{channel.location} ({', '.join(known)})" if known else channel.location


def _environment(described: Mapping[str, Any]) -> Iterator[tuple[str, Fact]]:
    for name, value in described.get("Environment", {}).items():
        yield name, Fact(value, hidden(name, value))
    if image := image_of(described, described["Trackside"]["options"]):
        yield "image", _plain(image)


def _host(described: Mapping[str, Any], recorded: Recorded) -> Iterator[tuple[str, Fact]]:
    facts = recorded.machine()
    yield from ((name, _plain(value)) for name, value in facts.items())
    if facts:
        yield "hosts", _plain(str(num_hosts_of(described)))


def _plain(text: str) -> Fact:
    return Fact(text, text)
