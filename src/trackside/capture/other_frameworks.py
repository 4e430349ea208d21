"""Reports that a script was not watched because it trains with another framework than PyTorch.

Once per job, when the script ends: in its log, and in a file of the trial that `show` and rules
read. Without it a watched job without data would seem healthy.
"""

import atexit
import json
import logging
import sys
from contextlib import suppress
from pathlib import Path

from trackside.capture.environment import CaptureEnvironment

logger = logging.getLogger(__name__)

_FRAMEWORKS = {
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "mxnet": "MXNet",
    "paddle": "PaddlePaddle",
    "sklearn": "scikit-learn",
}
"""By their modules; of several imported ones the first is named."""
_HOOK = "trackside.capture.hook"
"""Loaded as soon as anything is watched."""


def report_at_exit(environment: CaptureEnvironment) -> None:
    atexit.register(_report, environment)


def report_failure(error: Exception) -> None:
    """For `show` and rules; the log has it already."""
    with suppress(Exception):
        _leave_marker(CaptureEnvironment.load(), f"capture could not be set up ({error})")


def _report(environment: CaptureEnvironment) -> None:
    framework = next((name for module, name in _FRAMEWORKS.items() if module in sys.modules), None)
    if framework is None or _HOOK in sys.modules:
        return
    try:
        is_first = _leave_marker(environment, framework)
    except Exception:  # noqa: BLE001 nothing here may fail a training
        is_first = True
    if is_first:
        logger.warning("Not watched: %s. Trackside watches models of PyTorch.", framework)


def _leave_marker(environment: CaptureEnvironment, framework: str) -> bool:
    """Whether this process is the first to report it, and no other of the job is watched."""
    # Every Python that the script starts loads this module: what few need is loaded here.
    from trackside.capture.selection.configuration import read_configuration
    from trackside.capture.trial_layout import COLLECTIONS, UNWATCHED
    from trackside.settings import Settings
    from trackside.storage.locate import locate

    out_dir = read_configuration(environment.hook_config, environment).out_dir
    is_folder = out_dir.startswith("/")
    folder = Path(out_dir) if is_folder else locate(out_dir, home=Settings.load().home).local
    if folder is None:
        return True
    if (folder / COLLECTIONS).is_dir():
        return False
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with (folder / UNWATCHED).open("x") as file:
            json.dump({"framework": framework}, file)
    except FileExistsError:
        return False
    return True
