"""Put on PYTHONPATH by Trackside to watch unchanged scripts; then runs the next one.

Python runs a module of this name at start-up. Another one further down the path still runs.
"""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

_HERE = str(Path(__file__).resolve().parent)


def _run_the_next_one() -> None:
    folders = [str(Path(entry or ".").resolve()) for entry in sys.path]
    # Only after this one: another that does the same would call us again for ever.
    behind = sys.path[folders.index(_HERE) + 1 :] if _HERE in folders else sys.path
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", behind)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _arm() -> None:
    try:
        from trackside.capture.autohook import arm
    except ImportError:  # this interpreter has no Trackside: nothing to do
        return
    arm()


_arm()
_run_the_next_one()
