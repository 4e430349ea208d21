"""A job's settings and the locations of its files, as labels and values.

A label with several values is repeated. Pure; `show` prints.
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from trackside.cli.styled_text import cell_len
from trackside.cli.text import size
from trackside.records.layout import WORKING_FOLDER
from trackside.records.spec import ATTACHED
from trackside.records.status import Status
from trackside.texts.secret_names import hidden, hide_in_arguments
from trackside.texts.shown_names import shown_name
from trackside.texts.terminal_text import one_line
from trackside.views.job_setup.repeat_command import own_parameters, plain

Facts = Iterator[tuple[str, str]]


def asked(described: Mapping[str, Any], tags: Mapping[str, str]) -> Facts:
    """Including the submitter. Secrets are masked."""
    options = described["Trackside"]["options"]
    if script := plain(described, "sagemaker_program"):
        yield "script", script
    if module := options.get("Module"):
        yield "module", module
    for label in ("Command", "Arguments"):
        if given := options.get(label):
            yield label.lower(), shlex.join(hide_in_arguments(given))
    yield from _image(described)
    parameters = own_parameters(described)
    for each in _aligned({name: hidden(name, value) for name, value in parameters.items()}):
        yield "hyperparameters", each
    for each in _aligned(tags):
        yield "tags", each
    if git := options.get("Git"):
        yield "git commit", _git(git)
    if owner := described["Trackside"].get("owner"):
        yield "owner", owner


def _image(described: Mapping[str, Any]) -> Facts:
    """What a container was made of; of other jobs the name alone, as it was given."""
    options = described["Trackside"]["options"]
    named = described["AlgorithmSpecification"].get("TrainingImage")
    if named:
        yield "image", named
    if (chosen := options.get("Image")) and chosen != named:
        yield "image", f"{chosen} (by TRACKSIDE_IMAGES)" if named else chosen
    hosts = described["Trackside"].get("hosts", {}).values()
    pulled = {host["image"] for host in hosts if host.get("image")}
    for found in sorted(pulled or {options.get("ImageId")} - {None}):
        yield "image", found
    if digest := options.get("ImageDigest"):
        yield "image", digest


def _aligned(values: Mapping[str, str]) -> Iterator[str]:
    longest = max(map(cell_len, values), default=0)
    for name, value in values.items():
        yield f"{name}{' ' * (longest - cell_len(name))}  {one_line(value)}"


def _git(git: Mapping[str, Any]) -> str:
    changed = {True: ", with changes", False: "", None: ", unknown whether with changes"}
    where = f" on {git['Branch']}" if git.get("Branch") else ""
    remote = f" of {git['Remote']}" if git.get("Remote") else ""
    return f"{git['Commit']}{where}{changed[git.get('Changed')]}{remote}"


def places(described: Mapping[str, Any]) -> Facts:
    own = described["Trackside"]
    # One that we did not start manages its own files.
    has_model = own["options"].get("Sandbox") != ATTACHED
    if has_model and Status(described["TrainingJobStatus"]) in (Status.COMPLETED, Status.STOPPED):
        yield "model", described["ModelArtifacts"]["S3ModelArtifacts"]
    yield "output", own["output"]
    if kept := _kept(described):
        yield "kept", kept
    for channel in described.get("InputDataConfig", ()):
        location = channel["DataSource"]["S3DataSource"]["S3Uri"]
        yield "channels", f"{channel['ChannelName']}  {location}"
    if own["folder"]:
        yield "folder", own["folder"]
    yield "log", f"trackside logs {shown_name(described['TrainingJobName'])}"


def _kept(described: Mapping[str, Any]) -> str:
    """`3 files, 12 MB, from the working folder`; empty when there are none."""
    states = [
        folders.get(WORKING_FOLDER, {}) for folders in described["Trackside"]["syncs"].values()
    ]
    num_files = sum(state.get("num_files", 0) for state in states)
    size_bytes = sum(state.get("size_bytes", 0) for state in states)
    files = "1 file" if num_files == 1 else f"{num_files:,} files"
    return f"{files}, {size(size_bytes)}, of {WORKING_FOLDER}" if num_files else ""
