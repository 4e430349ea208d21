"""Turns an estimator's arguments into one validated job: the spec, and its source.

Nothing is created here; all problems are reported together.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any

from trackside.errors import InvalidSpec, Violation
from trackside.quick_dataclass import dataclass
from trackside.records.layout import JobKeys
from trackside.records.spec import JobSpec
from trackside.sdk import hyperparameters
from trackside.sdk.arguments import in_arguments, to_request
from trackside.sdk.container_image import choose_sandbox, container_problems
from trackside.sdk.debug_request import (
    rule_violations,
    source_files,
    warn_of_unsaved,
    watching,
)
from trackside.sdk.inputs import Inputs, channels
from trackside.sdk.locations import location
from trackside.sdk.naming import base_of, name_problems
from trackside.sdk.program import (
    base_of_program,
    check_kind,
    has_source,
    in_place_problems,
    is_script,
    problems,
)
from trackside.sdk.source import Source, find_folder, find_source, in_place
from trackside.settings import Settings
from trackside.texts.shown_names import wire_name
from trackside.texts.unique_names import unique_name


@dataclass(frozen=True, slots=True)
class Request:
    spec: JobSpec
    source: Source | None
    """What to pack; None when an image contains the program."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Other files of the job, by where they are stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitArguments:
    """What one call of `fit` adds to the estimator's own arguments."""

    inputs: Inputs | None = None
    job_name: str | None = None
    experiment: Mapping[str, Any] | None = None


def make_request(
    arguments: Mapping[str, Any],
    fit: FitArguments,
    encode: Callable[[Any], str],
    settings: Settings,
) -> Request:
    """`InvalidSpec` lists everything that is wrong with the arguments and the source."""
    check_kind(arguments)
    image, entry = arguments.get("image_uri"), arguments.get("entry_point")
    runs = os.fspath(entry) if entry else base_of_program(arguments)
    base = arguments.get("base_job_name") or base_of(runs, image)
    violations = [*container_problems(arguments)]
    violations += name_problems(fit.job_name) if fit.job_name else ()
    # An invalid name is reported once, as given.
    name = unique_name(base) if violations or not fit.job_name else wire_name(fit.job_name)
    request = to_request(arguments)
    request["TrainingJobName"] = name
    output = request.setdefault("OutputDataConfig", {}).setdefault("S3OutputPath", settings.output)
    # A server has its own table of images.
    in_container = settings.runs_here and choose_sandbox(request, settings)
    runs_here = settings.runs_here and not in_container
    if runs_here:
        _set_interpreter(request, settings, violations)
    if fit.experiment:
        request["ExperimentConfig"] = dict(fit.experiment)
    violations += problems(arguments, _interpreter(request), runs_here=runs_here)
    if kept_out := [*in_place_problems(arguments, runs_here=settings.runs_here)]:
        raise InvalidSpec([*violations, *kept_out])
    source = None
    with _collected(violations):
        source = _source(arguments, request, runs_here=runs_here)
    keys = JobKeys(location(arguments.get("code_location", output)).rstrip("/"), name)
    rules = arguments.get("rules", ())
    violations += rule_violations(rules, keys)
    request = watching(arguments.get("debugger_hook_config"), rules, keys, output) | request
    texts = request["HyperParameters"] = {}
    with _collected(violations):
        texts |= hyperparameters.encoded(arguments.get("hyperparameters", {}), encode)
    with _collected(violations):
        texts |= _distribution(arguments)
    texts |= _program(arguments, source, keys)
    if source is not None and source.in_place is not None:
        request["Trackside"] = {**request.get("Trackside", {}), "InPlace": str(source.in_place)}
    if inputs := channels(fit.inputs):
        request["InputDataConfig"] = inputs
    spec = None
    with _collected(violations, arguments):
        spec = JobSpec.from_request(request)
    if violations or spec is None:
        raise InvalidSpec(violations)
    warn_of_unsaved(spec, rules)
    return Request(spec, source, source_files(rules, keys))


@contextmanager
def _collected(
    violations: list[Violation], arguments: Mapping[str, Any] | None = None
) -> Iterator[None]:
    """Collects violations and continues; with arguments, under the caller's names."""
    try:
        yield
    except InvalidSpec as failure:
        known = failure if arguments is None else in_arguments(failure, arguments)
        violations.extend(known.violations)


def _set_interpreter(
    request: dict[str, Any], settings: Settings, violations: list[Violation]
) -> None:
    """The interpreter's absolute path, links kept: a virtual environment is known by its link."""
    options = request.get("Trackside", {})
    given = options.get("Python") or settings.python
    if not given:
        return
    path = os.path.abspath(os.path.expanduser(given)) if os.sep in given else shutil.which(given)
    if path is None or not os.access(path, os.X_OK):
        violations.append(Violation("python", given, "is no program of this machine"))
    else:
        request["Trackside"] = {**options, "Python": path}


def _source(
    arguments: Mapping[str, Any], request: Mapping[str, Any], *, runs_here: bool
) -> Source | None:
    runs_in_place = arguments.get("in_place", False)
    if not is_script(arguments):
        if not has_source(arguments):
            return None
        found = find_folder(arguments.get("source_dir"), arguments.get("dependencies", ()))
        return in_place(found) if runs_in_place else found
    interpreter = _interpreter(request)
    folder = arguments.get("source_dir")
    found = find_source(
        arguments["entry_point"],
        os.curdir if runs_in_place and folder is None else folder,
        arguments.get("dependencies", ()),
        # Another interpreter may have another Python version.
        check_syntax=runs_here
        and os.path.realpath(interpreter) == os.path.realpath(sys.executable),
    )
    return in_place(found) if runs_in_place else found


def _interpreter(request: Mapping[str, Any]) -> str:
    return str(request.get("Trackside", {}).get("Python", sys.executable))


def _program(arguments: Mapping[str, Any], source: Source | None, keys: JobKeys) -> dict[str, str]:
    if not has_source(arguments):
        return {}
    program = source.program if source else os.fspath(arguments.get("entry_point", ""))
    uri = source.uri if source and source.uri else keys.source
    level = arguments.get("container_log_level", hyperparameters.DEFAULT_LOG_LEVEL)
    own = hyperparameters.script(program, uri, keys.name, level)
    if not program:
        del own["sagemaker_program"]
    if source is not None and source.in_place is not None:
        del own["sagemaker_submit_directory"]
    return hyperparameters.encoded(own, hyperparameters.as_json)


def _distribution(arguments: Mapping[str, Any]) -> dict[str, str]:
    instance_type = arguments.get("instance_type", "local")
    own = hyperparameters.distributed(arguments.get("distribution", {}), instance_type)
    return hyperparameters.encoded(own, hyperparameters.as_json)
