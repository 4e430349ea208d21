"""What a job is made of, as names and values to compare with another job's: hyperparameters,
arguments, packages, data, environment, machine, git. The code is compared by `code_diff`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trackside.jobs.described_locations import num_hosts_of
from trackside.records.channel_data import ChannelData
from trackside.texts.quantities import size
from trackside.texts.secret_names import MASK, hide_passwords, looks_secret
from trackside.texts.truncation import shortened
from trackside.views.job_setup.recorded import Recorded
from trackside.views.job_setup.repeat_command import own_parameters

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

HYPERPARAMETER, ARGUMENT, PACKAGE = "hyperparameter", "argument", "package"
DATA, ENVIRONMENT, HOST, GIT = "data", "environment", "host", "git"
_RECORDED = (PACKAGE, HOST, GIT)
"""Kinds that not every job has."""
MOST_VALUE = 300
_MOST_NAMED_FILES = 5

Key = tuple[str, str]
"""One of the kinds above, and a name."""


@dataclass(frozen=True, slots=True)
class Made:
    values: Mapping[Key, str]
    """As recorded: with secrets, for comparing only."""
    channels: Mapping[str, ChannelData]

    def has(self, kind: str) -> bool:
        return any(each == kind for each, _ in self.values)

    def shown(self, key: Key) -> str | None:
        """The value as it may be shown; None if the job has none."""
        value = self.values.get(key)
        return None if value is None else _shown(key, value)


def made_of(jobs: "JobReader", name: str) -> Made:
    """What is not recorded is left out."""
    described = jobs.describe(name)
    recorded = Recorded(described, jobs.settings.home)
    channels = {
        each["ChannelName"]: recorded.channel(each["ChannelName"])
        for each in described.get("InputDataConfig", ())
    }
    known = {channel: data for channel, data in channels.items() if data is not None}
    values = dict(_values(described, recorded))
    values |= {(DATA, channel): _location(described, channel) for channel in channels}
    return Made(values, known)


def differences(before: Made, after: Made) -> Iterator[tuple[Key, str, str]]:
    """Each name whose value differs, with both values as they may be shown; "" for none."""
    unknown = {kind for kind in _RECORDED if not (before.has(kind) and after.has(kind))}
    for key in dict.fromkeys([*before.values, *after.values]):
        one, other = before.values.get(key), after.values.get(key)
        if key[0] in unknown:
            continue  # a job of an older version, or one that has not ended
        if key[0] == DATA:
            if (texts := _data_difference(key[1], before, after)) is not None:
                yield key, *texts
        elif one != other:
            old, new = before.shown(key) or "", after.shown(key) or ""
            yield key, old, f"{new} (another)" if old == new else new


def _values(described: Mapping[str, Any], recorded: Recorded) -> Iterator[tuple[Key, str]]:
    options = described["Trackside"]["options"]
    for name, value in own_parameters(described).items():
        yield (HYPERPARAMETER, name), value
    for name, value in _arguments(options.get("Arguments") or options.get("Command") or ()):
        yield (ARGUMENT, name), value
    for name, value in described.get("Environment", {}).items():
        yield (ENVIRONMENT, name), value
    if (packages := recorded.packages()) is not None:
        yield (PACKAGE, "python"), packages.python
        for name, value in packages.packages.items():
            yield (PACKAGE, name), value
    for name, value in recorded.machine().items():
        yield (HOST, name), value
    yield (ENVIRONMENT, "number of hosts"), str(num_hosts_of(described))
    image = options.get("ImageDigest") or options.get("ImageId") or options.get("Image")
    if image:
        yield (ENVIRONMENT, "image"), image
    git = options.get("Git") or {}
    for name, member in (("commit", "Commit"), ("branch", "Branch"), ("remote", "Remote")):
        if git.get(member):
            yield (GIT, name), git[member]


def _arguments(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """`--lr 0.1`, `--lr=0.1`, `lr=0.1` by name; others by their position."""
    at, index = 0, 0
    while index < len(words):
        word, following = words[index], words[index + 1 : index + 2]
        index += 1
        name, equals, value = word.partition("=")
        if equals and name:
            yield name, value
        elif word.startswith("-") and len(word) > 1:
            takes_value = bool(following) and not following[0].startswith("--")
            index += takes_value
            yield word, following[0] if takes_value else "yes"
        else:
            at += 1
            yield f"argument {at}", word


def _shown(key: Key, value: str) -> str:
    if looks_secret(key[1]) and key[0] in (HYPERPARAMETER, ARGUMENT, ENVIRONMENT):
        return MASK
    return shortened(hide_passwords(value), MOST_VALUE)


def _location(described: Mapping[str, Any], channel: str) -> str:
    [found] = [each for each in described["InputDataConfig"] if each["ChannelName"] == channel]
    return str(found["DataSource"]["S3DataSource"]["S3Uri"])


def _data_difference(channel: str, before: Made, after: Made) -> tuple[str, str] | None:
    """None if the data is the same, as far as it is known; wherever it is."""
    one, other = before.channels.get(channel), after.channels.get(channel)
    if one is None or other is None:
        old, new = before.shown((DATA, channel)) or "", after.shown((DATA, channel)) or ""
        # Of data that was uploaded for each job, the locations differ, and say nothing.
        are_copies = all(f"/input/{channel}" in each for each in (old, new))
        return None if old == new or are_copies else (old, new)
    if one.digest and one.digest == other.digest:
        return None
    if not one.digest and (one.num_files, one.size_bytes) == (other.num_files, other.size_bytes):
        return None
    return _summary(one), "; ".join([_summary(other), *_changed_files(one, other)])


def _summary(data: ChannelData) -> str:
    files = "1 file" if data.num_files == 1 else f"{data.num_files:,} files"
    return f"{files}, {size(data.size_bytes)}"


def _changed_files(one: ChannelData, other: ChannelData) -> Iterator[str]:
    if one.num_files > len(one.names) or other.num_files > len(other.names):
        return  # not all are listed
    old, new = one.files, other.files
    for what, names in (
        ("added", [name for name in new if name not in old]),
        ("removed", [name for name in old if name not in new]),
        ("changed", [name for name in new if name in old and old[name] != new[name]]),
    ):
        if names:
            named = ", ".join(shortened(name, 80) for name in names[:_MOST_NAMED_FILES])
            more = f" and {len(names) - _MOST_NAMED_FILES:,} more"
            yield f"{what}: {named}{more if len(names) > _MOST_NAMED_FILES else ''}"
