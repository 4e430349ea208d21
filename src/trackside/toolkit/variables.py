"""The SM_* variables of a job, byte for byte as SageMaker's own toolkit writes them.

Beyond it: names that shells cannot read get an alias, and what the kernel would reject is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trackside.errors import ToolkitError
from trackside.toolkit import log
from trackside.toolkit.arguments import to_text
from trackside.toolkit.environment import Environment

# Linux accepts no single "NAME=value" above this (MAX_ARG_STRLEN less the final zero byte).
LONGEST_BYTES = 128 * 1024 - 1

_RENAMED = {"hyperparameters": "HPS", "additional_framework_parameters": "FRAMEWORK_PARAMS"}
_NOT_EXPORTED = frozenset(
    {
        "channel_input_dirs",
        "distribution_hosts",
        "is_master",
        "is_modelparallel_enabled",
        "is_smddpmprun_installed",
        "is_smddprun_installed",
        "job_name",
        "master_hostname",
    }
)


def sm_variables(environment: Environment, arguments: list[str]) -> dict[str, str]:
    described = environment._asdict()
    values = {
        f"SM_{_RENAMED.get(field, field.upper())}": value
        for field, value in described.items()
        if field not in _NOT_EXPORTED and (field != "topology" or value)
    }
    values["SM_CHANNELS"] = sorted(environment.channel_input_dirs)
    values["SM_USER_ARGS"] = arguments
    values["SM_TRAINING_ENV"] = described
    named = _named("SM_CHANNEL_", environment.channel_input_dirs)
    named.update(_named("SM_HP_", environment.hyperparameters))
    texts = {name: to_text(value) for name, value in {**values, **named}.items()}
    return {**_shell_aliases(named, texts), **texts}


def accepted(variables: Mapping[str, str]) -> dict[str, str]:
    """Those the kernel accepts; each one left out is logged once."""
    kept = {}
    for name, text in variables.items():
        size = len(_encoded(name, text)) + len(name) + 1
        if "=" in name:
            log.warning(f"{name!r} cannot be a variable, it contains '='. SM_HPS has the value.")
        elif size > LONGEST_BYTES:
            log.warning(
                f"{name} is left out: {size:,} bytes, and Linux takes {LONGEST_BYTES:,} in one "
                "variable. The arguments and input/config/hyperparameters.json have all values."
            )
        else:
            kept[name] = text
    return kept


def check_arguments(arguments: Sequence[str]) -> None:
    before = ""
    for text in arguments:
        _encoded(before or text, text)
        before = text


def _named(prefix: str, values: Mapping[str, object]) -> dict[str, object]:
    return {prefix + name.upper(): value for name, value in values.items()}


def _shell_aliases(named: Mapping[str, object], taken: Mapping[str, str]) -> dict[str, str]:
    """SM_HP_BATCH_SIZE for SM_HP_BATCH-SIZE: no shell can read the latter, dash drops it."""
    aliases: dict[str, str] = {}
    for name in named:
        alias = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
        if alias not in taken and alias not in aliases:
            aliases[alias] = taken[name]
    return aliases


def _encoded(name: str, text: str) -> bytes:
    try:
        encoded = text.encode("utf-8", "surrogateescape")
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded or "\0" in name:
        raise ToolkitError(
            f"{name!r} holds a character that no program argument or variable can carry "
            "(a zero byte or half a surrogate pair). Encode the value, for example as base64."
        )
    return encoded
