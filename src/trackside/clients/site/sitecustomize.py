"""Put on PYTHONPATH by `trackside env`: AWS clients ask our server, SageMaker's Local Mode too,
TensorBoard reads whole buckets of it, and `smdebug` is ours.

Python runs a module of this name at start-up, whatever its version: so this one keeps to what 3.7
knows, and loads nothing before it is needed. The next one on the path still runs.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

TYPE_CHECKING = False  # `typing` would be the slowest import here
if TYPE_CHECKING:
    from collections.abc import Sequence

_HERE = os.path.dirname(os.path.realpath(__file__))
_ADDITIONS = {
    "botocore.handlers": "redirect",
    "awscli.botocore.handlers": "redirect",
    "sagemaker.local.local_session": "local_session",
    "tensorboard.compat.tensorflow_stub.io.gfile": "whole_buckets",
}
"""Which module is passed to which file beside this folder once it is loaded."""


class _Finder:
    """Waits for a few modules; any other is found as ever."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in _ADDITIONS:
            return _registering(PathFinder.find_spec(name, path, target), _ADDITIONS[name])
        if name == "smdebug":
            return _alias()
        return None


def _registering(spec: ModuleSpec | None, addition: str) -> ModuleSpec | None:
    if spec is None or spec.loader is None:
        return spec
    run = spec.loader.exec_module

    def run_and_register(module: ModuleType) -> None:
        run(module)
        # By its path: this interpreter need not have Trackside.
        path = os.path.join(os.path.dirname(_HERE), addition + ".py")
        added = importlib.util.spec_from_file_location("trackside_" + addition, path)
        _run(added).register(module)

    spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
    return spec


def _alias() -> ModuleSpec | None:
    """Ahead of an installed one, which cannot read what jobs save here; ours reads both kinds."""
    trackside = importlib.util.find_spec("trackside")
    if trackside is None or trackside.origin is None:
        return None
    folder = os.path.join(os.path.dirname(trackside.origin), "smdebug_alias")
    return PathFinder.find_spec("smdebug", [folder])


def _run_the_next_one() -> None:
    places = [os.path.realpath(entry or ".") for entry in sys.path]
    # Only behind this one: another that does the same would hand back to us for ever.
    behind = sys.path[places.index(_HERE) + 1 :] if _HERE in places else sys.path
    spec = PathFinder.find_spec("sitecustomize", behind)
    if spec is not None and spec.loader is not None:
        _run(spec)


def _run(spec: ModuleSpec | None) -> ModuleType:
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


sys.meta_path.insert(0, _Finder)
_run_the_next_one()
