"""The command that runs a job again with its stored code, from its description; a job that ran in
place runs in its folder.

Also for jobs that no command started; what `trackside run` has no option for is listed.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from trackside.quick_dataclass import dataclass
from trackside.records.spec import DOCKER
from trackside.texts.secret_names import MASK, hidden, hide_in_arguments
from trackside.views.job_setup.repeat_capture import captured

_OWN = "sagemaker_"
"""Prefix of hyperparameters that say what to run, and how."""
_ALL = ("Checkup", "StalledTrainingRule")
"""The rules of `--rule all`; see `rules/capture_plan`."""
_OF_RULE = ("rule_to_invoke", "source_s3_uri", "action_json")
_STOP = "stoptraining"
_LAUNCHERS = {
    "sagemaker_torch_distributed_enabled": "torchrun",
    "sagemaker_mpi_enabled": "mpi",
}
_PROCESSES = "sagemaker_mpi_num_of_processes_per_host"
_DEFAULT_GRACE_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Repeated:
    words: tuple[str, ...]
    """Secrets are `***`; empty if `trackside run` cannot start such a job."""
    left_out: tuple[str, ...]
    """What the command cannot express."""

    @property
    def command(self) -> str:
        return shlex.join(self.words)


def own_parameters(described: Mapping[str, Any]) -> dict[str, str]:
    """The script's own hyperparameters."""
    given = described.get("HyperParameters", {})
    return {name: value for name, value in given.items() if not name.startswith(_OWN)}


def plain(described: Mapping[str, Any], name: str) -> str:
    """Hyperparameters that say what to run: clients send them as JSON, or plain."""
    text = str(described.get("HyperParameters", {}).get(name, ""))
    with suppress(ValueError):
        found = json.loads(text)
        return found if isinstance(found, str) else text
    return text


def repeated(
    described: Mapping[str, Any], tags: Mapping[str, str], default_output: str
) -> Repeated:
    options = described["Trackside"]["options"]
    runs = _what_runs(described, options)
    if runs is None:
        return Repeated((), ("its image has its program in it",))
    program, behind = runs
    words = ["trackside", "run", *program, *_inputs(described), *_results(described, tags)]
    words += [*_machine(described, options), *_watching(described)]
    if described["OutputDataConfig"]["S3OutputPath"] != default_output:
        words += ["--output", described["OutputDataConfig"]["S3OutputPath"]]
    words += ["--", *hide_in_arguments(behind)] if behind else []
    return Repeated(tuple(words), tuple(_left_out(described)))


def _what_runs(
    described: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[list[str], Sequence[str]] | None:
    source = plain(described, "sagemaker_submit_directory")
    if source.startswith("/"):  # an archive, not a folder to pack
        source = f"file://{source}"
    words = ["--source-dir", source] if source else []
    if folder := options.get("InPlace"):  # nothing was stored: it ran in the folder itself
        words = ["--in-place", "--source-dir", folder]
    if command := options.get("Command"):
        return words, command
    arguments = options.get("Arguments", ())
    if module := options.get("Module"):
        return ["-m", module, *words], arguments
    script = plain(described, "sagemaker_program")
    if not script and options.get("Sandbox") == DOCKER:
        return [], ()
    return ([script, *words], arguments) if script and words else None


def _inputs(described: Mapping[str, Any]) -> Iterator[str]:
    for channel in described.get("InputDataConfig", ()):
        location = channel["DataSource"]["S3DataSource"]["S3Uri"]
        yield from ("--channel", f"{channel['ChannelName']}={location}")
    mode = described["AlgorithmSpecification"].get("TrainingInputMode", "File")
    if mode != "File":
        yield from ("--input-mode", mode)
    for name, value in own_parameters(described).items():
        yield from ("-p", f"{name}={hidden(name, value)}")
    for name, value in described.get("Environment", {}).items():
        yield from ("--environment", f"{name}={hidden(name, value)}")


def _results(described: Mapping[str, Any], tags: Mapping[str, str]) -> Iterator[str]:
    if checkpoints := described.get("CheckpointConfig"):
        yield from ("--checkpoint-uri", checkpoints["S3Uri"])
    if tensorboard := described.get("TensorBoardOutputConfig"):
        yield from ("--tensorboard", tensorboard["S3OutputPath"])
    for metric in described["AlgorithmSpecification"].get("MetricDefinitions", ()):
        yield from ("--metric", f"{metric['Name']}={metric['Regex']}")
    for name, value in tags.items():
        yield from ("--tag", f"{name}={value}")
    for target in described["Trackside"]["options"].get("Notify", ()):
        yield from ("--notify", target)


def _machine(described: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[str]:
    resources = described["ResourceConfig"]
    given: list[tuple[str, Any, Any]] = [
        ("--instances", resources.get("InstanceCount", 1), 1),
        ("--instance-type", resources.get("InstanceType", "local"), "local"),
        ("--max-run", described["Trackside"].get("max_runtime_seconds"), None),
        ("--max-retries", described.get("RetryStrategy", {}).get("MaximumRetryAttempts"), None),
        ("--grace", options.get("GraceSeconds", _DEFAULT_GRACE_SECONDS), _DEFAULT_GRACE_SECONDS),
        ("--python", options.get("Python"), None),
        ("--image", _image(described, options), None),
        ("--cores", options.get("Cores"), None),
        ("--memory", options.get("MemoryGB"), None),
        ("--shm", options.get("ShmGB"), None),
        ("--gpus", options.get("GPUs"), None),
    ]
    for variable, launcher in _LAUNCHERS.items():
        if plain(described, variable) == "true":
            given.append(("--distribution", launcher, None))
            given.append(("--processes-per-host", plain(described, _PROCESSES) or None, None))
    for option, value, default in given:
        if value != default:
            yield from (option, str(value))
    if options.get("ReadOnlyRoot"):
        yield "--read-only"


def _image(described: Mapping[str, Any], options: Mapping[str, Any]) -> str | None:
    if options.get("Sandbox") != DOCKER:
        return None
    return str(options.get("Image") or described["AlgorithmSpecification"]["TrainingImage"])


def _watching(described: Mapping[str, Any]) -> Iterator[str]:
    rules = [*_rules(described)]
    if set(_ALL) <= {text for option, text in rules if option == "--rule"}:
        rules = [each for each in rules if each[1] not in _ALL]
        yield from ("--rule", "all")
    for rule in rules:
        yield from rule
    if names := captured(described).names:
        yield from ("--capture", ",".join(names))
    parameters = described.get("DebugHookConfig", {}).get("HookParameters", {})
    for option, name in (("--every", "save_interval"), ("--ring", "ring")):
        if name in parameters:
            yield from (option, parameters[name])


def _rules(described: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for member in ("DebugRuleConfigurations", "ProfilerRuleConfigurations"):
        for rule in described.get(member, ()):
            parameters = rule.get("RuleParameters", {})
            name, file = parameters.get("rule_to_invoke", ""), parameters.get("source_s3_uri")
            own = [f"{key}={value}" for key, value in parameters.items() if key not in _OF_RULE]
            parts = [*([file] if file else []), name, *([",".join(own)] if own else [])]
            is_stopping = _STOP in parameters.get("action_json", "")
            yield "--stop-on" if is_stopping else "--rule", ":".join(parts)


def _left_out(described: Mapping[str, Any]) -> Iterator[str]:
    algorithm, options = described["AlgorithmSpecification"], described["Trackside"]["options"]
    image = algorithm.get("TrainingImage")
    if image and _image(described, options) is None:
        yield f"the image {image}"
    if algorithm.get("ContainerEntrypoint") or algorithm.get("ContainerArguments"):
        yield "the entry point of its container"
    if described["ResourceConfig"].get("InstanceGroups"):
        yield "its instance groups"
    if any(_is_special(channel) for channel in described.get("InputDataConfig", ())):
        yield "how its channels are read"
    if not captured(described).is_all:
        yield "how its hook saves tensors"
    if options.get("Priority"):
        yield f"its priority, {options['Priority']}"
    profiler = described.get("ProfilerConfig", {})
    if set(profiler) - {"DisableProfiler", "ProfilingIntervalInMilliseconds"}:
        yield "its ProfilerConfig"
    names = [*own_parameters(described), *described.get("Environment", {})]
    has_secret_target = any(MASK in each for each in options.get("Notify", ()))
    if has_secret_target or any(hidden(name, "-") != "-" for name in names):
        yield "secrets, shown as ***"


def _is_special(channel: Mapping[str, Any]) -> bool:
    """Whether it has more than a name and a location."""
    source = channel["DataSource"]["S3DataSource"]
    usual = (
        source.get("S3DataType", "S3Prefix") == "S3Prefix",
        source.get("S3DataDistributionType", "FullyReplicated") == "FullyReplicated",
        channel.get("CompressionType", "None") == "None",
        channel.get("RecordWrapperType", "None") == "None",
        "InputMode" not in channel,
        "ShuffleConfig" not in channel,
    )
    return not all(usual)
