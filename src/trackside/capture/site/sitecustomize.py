"""Put on PYTHONPATH by Trackside to watch unchanged scripts; then runs the next one.

Python runs a module of this name at start-up. Another one further down the path still runs. In a
container any Python may load it: so it uses nothing that an older one does not have.
"""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

_HERE = str(Path(__file__).resolve().parent)
_LIBRARY = os.environ.get("TRACKSIDE_LIBRARY")
"""Where a container has Trackside alone, without its other packages."""
_OLDEST = (3, 10)


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
        if sys.version_info < _OLDEST:
            raise ImportError("capture needs Python 3.10 or later")
        if _LIBRARY and importlib.util.find_spec("trackside") is None:
            sys.path.append(_LIBRARY)  # behind everything else: nothing of the script's is hidden
        from trackside.capture.autohook import arm
    except ImportError as error:
        _report(str(error))
        return
    arm()


def _report(problem: str) -> None:
    """In the log, and in the file of the trial that `trackside show` and rules read: once a job."""
    if os.environ.get("TRACKSIDE_CAPTURE") != "auto":
        return
    import json

    text = "Python {}.{} of this script: {}".format(*sys.version_info[:2], problem)
    try:
        with open("/opt/ml/input/config/debughookconfig.json") as file:
            folder = json.load(file).get("LocalPath") or "/opt/ml/output/tensors"
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "not-watched.json"), "x") as file:
            json.dump({"framework": text}, file)
    except FileExistsError:
        return
    except (OSError, ValueError):
        pass
    sys.stderr.write("[trackside] Not watched: " + text + "\n")
    sys.stderr.flush()  # before the script: an older Python buffers it


_arm()
_run_the_next_one()
