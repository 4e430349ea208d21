"""Put on PYTHONPATH by Trackside to watch unchanged scripts; then hands over to the next one.

Python runs a module of this name at start-up. Another one further down the path still runs.
"""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

_HERE = str(Path(__file__).resolve().parent)


def _run_the_next_one() -> None:
    others = [entry for entry in sys.path if str(Path(entry or ".").resolve()) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
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
