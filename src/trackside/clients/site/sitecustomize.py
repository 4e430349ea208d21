"""Put on PYTHONPATH by `trackside env`: AWS clients and SageMaker's Local Mode use the Trackside
server, TensorBoard reads whole buckets, and `smdebug` is Trackside's.

Every version of Python runs a module of this name at start-up, so this one needs only 3.7 and
imports lazily. The next `sitecustomize` on the path still runs.
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
"""By module name: the file beside this folder that patches the module when it is loaded."""


class _Finder:
    """Handles a few modules; all others are found as usual."""

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
        # Loaded by path, because this interpreter may not have Trackside.
        path = os.path.join(os.path.dirname(_HERE), addition + ".py")
        added = importlib.util.spec_from_file_location("trackside_" + addition, path)
        _run(added).register(module)

    spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
    return spec


def _alias() -> ModuleSpec | None:
    """Takes precedence over an installed smdebug, which cannot read Trackside's format."""
    trackside = importlib.util.find_spec("trackside")
    if trackside is None or trackside.origin is None:
        return None
    folder = os.path.join(os.path.dirname(trackside.origin), "smdebug_alias")
    return PathFinder.find_spec("smdebug", [folder])


def _run_the_next_one() -> None:
    places = [os.path.realpath(entry or ".") for entry in sys.path]
    # Only after this one: another such module would otherwise call this one for ever.
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
