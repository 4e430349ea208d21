"""Finds and loads a custom rule: from a file, an object in storage, or an installed package."""

import difflib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trackside
from trackside.storage.locate import locate_object

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "trackside.rules"
"""The entry points through which packages provide rules."""
SOURCE = "source_s3_uri"
FUNCTION = "check"
"""The name of a file's rule if it is a function without a configured name."""

_ALIAS = str(Path(trackside.__file__).with_name("smdebug_alias"))
_PLATFORM = frozenset({SOURCE, "rule_to_invoke", "action_json", "start_step", "end_step"})


def make_smdebug_importable() -> None:
    """Append our smdebug alias to the path; last, so that an installed smdebug takes precedence."""
    if _ALIAS not in sys.path:
        sys.path.append(_ALIAS)


def is_custom(parameters: Mapping[str, str]) -> bool:
    return bool(parameters.get(SOURCE))


def installed() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # 10 ms

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def fetch(uri: str, folder: Path, home: Path) -> Path:
    """Download the file to a folder of this machine."""
    place = locate_object(uri, home=home)
    path = local_path(uri, folder)
    path.write_bytes(place.store.get(place.key))
    return path


def local_path(uri: str, folder: Path) -> Path:
    """Under its own file name, so that tracebacks show the name the user knows."""
    return folder / uri.rpartition("/")[2]


def load(path: Path) -> Any:
    """Execute the module and return it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path.name!r} is not a Python file. Name one that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def find(module: Any, name: str | None) -> Callable[..., Any]:
    """The class or function to invoke. Without a name, or if the name is missing: `check`."""
    wanted = getattr(module, name, None) if name else None
    found: Callable[..., Any] | None = wanted or getattr(module, FUNCTION, None)
    if callable(found):
        return found
    own = [key for key, value in vars(module).items() if _is_own(value, module)]
    near = difflib.get_close_matches(name or FUNCTION, own, n=1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"{module.__name__}.py has no rule {name or FUNCTION!r}.{meant} "
        f"It has: {', '.join(own) or 'nothing'}. Set rule_to_invoke to one of them."
    )


def arguments(
    rule: Callable[..., Any], given: Mapping[str, Any], texts: Mapping[str, str]
) -> dict[str, Any]:
    """Keyword arguments for the call: what the evaluator provides, then the user's parameters.

    `ValueError` when a required argument is missing.
    """
    taken = {**_parameters(texts), **given}
    found: dict[str, Any] = {}
    missing = []
    for parameter in inspect.signature(rule).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            found.update({key: value for key, value in taken.items() if key not in given})
        elif parameter.name in taken:
            found[parameter.name] = taken[parameter.name]
        elif (
            parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
        ):
            missing.append(parameter.name)
    if missing:
        name = getattr(rule, "__name__", "the rule")
        raise ValueError(
            f"{name} requires {', '.join(map(repr, missing))}, which the job does not give. "
            "Add it to rule_parameters, or give it a default."
        )
    return found


def _parameters(texts: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value
        for key, value in texts.items()
        if key not in _PLATFORM and not key.startswith("other_trial")
    }


def _is_own(value: Any, module: Any) -> bool:
    return callable(value) and getattr(value, "__module__", None) == module.__name__
