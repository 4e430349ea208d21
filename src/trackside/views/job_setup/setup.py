"""What a job is made of: how to run it again, its code, packages, machine, data, and what it has
stored. The fields are those of the page's API. Secrets are masked.
"""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from trackside.errors import ObjectNotFound, TracksideError
from trackside.jobs.described_locations import keys_of
from trackside.records.layout import JobKeys
from trackside.records.spec import ATTACHED, DOCKER
from trackside.texts.secret_names import hidden, hide_in_arguments
from trackside.views.job.job_files import JobFile, job_files
from trackside.views.job_setup import code_files
from trackside.views.job_setup.code_files import CodeFile, CodeText
from trackside.views.job_setup.recorded import Recorded
from trackside.views.job_setup.repeat_command import own_parameters, repeated

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

GIT_DIFF = "git.diff"
"""In place of a file's path: how the code differed from its commit."""


@dataclass(frozen=True, slots=True)
class Git:
    commit: str
    branch: str
    remote: str
    is_changed: bool | None
    diff: bool
    """Whether it is known what was changed."""


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    name: str
    location: str
    mode: str
    files: int | None
    bytes: int | None
    digest: str
    """Equal for the same data; empty if it is not known."""


@dataclass(frozen=True, slots=True)
class CodeEntry:
    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class ArtifactEntry:
    name: str
    location: str
    bytes: int | None
    modified: float | None


@dataclass(frozen=True, slots=True)
class Moved:
    status: str
    time: float
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    command: str
    """Runs the job again with its stored code."""
    command_notes: list[str]
    """What that command cannot express."""
    typed: str
    """The command that submitted the job; empty if it is not known."""
    arguments: list[str]
    hyperparameters: dict[str, str]
    environment: dict[str, str]
    git: Git | None
    python: str
    packages: dict[str, str]
    machine: dict[str, str]
    channels: list[ChannelFacts]
    image: str
    files: list[CodeEntry]
    artifacts: list[ArtifactEntry]
    history: list[Moved]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def setup_of(jobs: "JobReader", name: str) -> Setup:
    """What cannot be read is left out. `JobNotFound` if there is no such job."""
    described = jobs.describe(name)
    options, keys = described["Trackside"]["options"], keys_of(described)
    home = jobs.settings.home
    recorded = Recorded(described, home)
    again = repeated(described, described["Trackside"].get("tags") or {}, jobs.settings.output)
    packages = recorded.packages()
    return Setup(
        command=again.command,
        command_notes=[*again.left_out],
        typed=shlex.join(hide_in_arguments(_typed(options))),
        arguments=hide_in_arguments(options.get("Arguments") or options.get("Command") or ()),
        hyperparameters=_masked(own_parameters(described)),
        environment=_masked(described.get("Environment", {})),
        git=git_of(options, recorded),
        python="" if packages is None else packages.python,
        packages={} if packages is None else packages.packages,
        machine=recorded.machine(),
        channels=[*channels_of(described, recorded)],
        image=image_of(described, options),
        files=[CodeEntry(each.path, each.size_bytes) for each in _code(described, jobs)],
        artifacts=[*map(_artifact, _stored(jobs, name, keys))],
        history=[
            Moved(each["Status"], each["StartTime"].timestamp(), each.get("StatusMessage", ""))
            for each in described["SecondaryStatusTransitions"]
        ],
    )


def code_of(jobs: "JobReader", name: str, path: str) -> CodeText:
    """One file of the job's code, or `GIT_DIFF`. `ObjectNotFound` if there is no such file."""
    described = jobs.describe(name)
    home = jobs.settings.home
    if path != GIT_DIFF:
        return code_files.text_of(described, home, path)
    diff = Recorded(described, home).git_diff()
    if diff is None:
        raise ObjectNotFound(
            "It is not recorded how the code of the job differed from its commit: it did not, it "
            "was in no git repository, or an older version submitted it."
        )
    return code_files.as_text(CodeFile(GIT_DIFF, len(diff)), diff)


def _typed(options: Mapping[str, Any]) -> list[str]:
    launch = options.get("Launch") or {}
    is_attached = options.get("Sandbox") == ATTACHED
    return list(options.get("Command", ()) if is_attached else launch.get("Command", ()))


def _masked(values: Mapping[str, str]) -> dict[str, str]:
    return {name: hidden(name, value) for name, value in values.items()}


def git_of(options: Mapping[str, Any], recorded: Recorded) -> Git | None:
    git = options.get("Git")
    if not git:
        return None
    is_changed = git.get("Changed")
    return Git(
        git["Commit"],
        git.get("Branch") or "",
        git.get("Remote") or "",
        is_changed,
        diff=bool(is_changed) and recorded.has_git_diff(),
    )


def channels_of(described: Mapping[str, Any], recorded: Recorded) -> Iterator[ChannelFacts]:
    usual = described["AlgorithmSpecification"].get("TrainingInputMode", "File")
    for channel in described.get("InputDataConfig", ()):
        data = recorded.channel(channel["ChannelName"])
        is_whole = data is not None and data.is_whole
        yield ChannelFacts(
            channel["ChannelName"],
            channel["DataSource"]["S3DataSource"]["S3Uri"],
            channel.get("InputMode") or usual,
            data.num_files if data is not None and is_whole else None,
            data.size_bytes if data is not None and is_whole else None,
            data.digest if data is not None else "",
        )


def image_of(described: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    if options.get("Sandbox") != DOCKER:
        return ""
    named = options.get("Image") or described["AlgorithmSpecification"].get("TrainingImage", "")
    content = options.get("ImageDigest") or options.get("ImageId")
    return f"{named} ({content})" if content else str(named)


def _code(described: Mapping[str, Any], jobs: "JobReader") -> list[CodeFile]:
    try:
        return code_files.files_of(described, jobs.settings.home)
    except TracksideError:
        return []


def _stored(jobs: "JobReader", name: str, keys: JobKeys) -> list[JobFile]:
    try:
        return job_files(jobs, name, keys)
    except TracksideError:
        return []


def _artifact(file: JobFile) -> ArtifactEntry:
    return ArtifactEntry(file.name, file.location, file.size_bytes, file.modified)
