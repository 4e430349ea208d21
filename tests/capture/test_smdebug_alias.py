"""Scripts written for smdebug find every name they import, from us."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import trackside
from tests.capture.trials import SMDEBUG_TRIAL
from tests.rules.profiling import Profiling
from trackside import smdebug_alias

SURFACE = {
    "smdebug": "CollectionKeys ReductionConfig SaveConfig SaveConfigMode modes",
    "smdebug.pytorch": "Hook Collection CollectionKeys SaveConfig SaveConfigMode ReductionConfig "
    "modes get_hook set_hook del_hook create_trial",
    "smdebug.pytorch.hook": "Hook",
    "smdebug.core.modes": "ModeKeys",
    "smdebug.core.collection": "CollectionKeys",
    "smdebug.core.save_config": "SaveConfig SaveConfigMode",
    "smdebug.core.reduction_config": "ReductionConfig",
    "smdebug.core.tensor": "StepState",
    "smdebug.trials": "create_trial LocalTrial S3Trial",
    "smdebug.trials.profiler_trial": "ProfilerTrial",
    "smdebug.profiler": "ProfilerTrial",
    "smdebug.rules": "Rule invoke_rule RequiredTensors",
    "smdebug.rules.rule": "Rule invoke_rule RequiredTensors",
    "smdebug.exceptions": "SMDebugError SMDebugTypeError SMDebugValueError SMDebugRuntimeError "
    "SMDebugNotImplementedError SMDebugCustomerError TensorUnavailable TensorUnavailableForStep "
    "ShapeUnavailableForStep StepUnavailable StepNotYetAvailable NoMoreData NoMoreProfilerData "
    "RuleEvaluationConditionMet InvalidWorker MissingCollectionFiles IndexReaderException "
    "InvalidCollectionConfiguration InsufficientInformationForRuleInvocation",
    "smdebug.analysis.utils": "no_refresh refresh parse_bool parse_list_from_str",
}

INSTALLED = importlib.util.find_spec("smdebug")
pytestmark = pytest.mark.skipif(
    INSTALLED is not None and "trackside" not in str(INSTALLED.origin),
    reason="the real smdebug is installed",
)


def run_script(code: str, *, first_on_path: Path | None = None) -> str:
    """The code in a process of its own, with the alias on its path as in a job."""
    source = Path(trackside.__file__).parents[1]
    path = [str(part) for part in (first_on_path, source, smdebug_alias.FOLDER) if part]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_name_of_the_import_surface_is_there():
    lines = [
        f"from {module} import {', '.join(names.split())}" for module, names in SURFACE.items()
    ]
    lines.append("from smdebug.exceptions import *; print(NoMoreData.__name__)")
    lines.append("import smdebug, smdebug.core.modes as m; assert smdebug.modes is m.ModeKeys")
    lines.append("import smdebug.pytorch as smd; assert smd.modes.TRAIN.value == 1")
    assert run_script("\n".join(lines)) == "NoMoreData\n"


def test_reading_a_trial_imports_no_torch():
    code = (
        "import sys\n"
        "from smdebug.trials import create_trial, LocalTrial\n"
        "from smdebug import modes\n"
        f"trial = create_trial({str(SMDEBUG_TRIAL)!r}, None, False, '/opt/ml/processing/x')\n"
        f"assert LocalTrial('x', {str(SMDEBUG_TRIAL)!r}).steps() == trial.steps()\n"
        "trial.tensor_names(collection='losses'); trial.cube()\n"
        "print(trial.steps(mode=modes.TRAIN), 'torch' in sys.modules)"
    )
    assert run_script(code) == "[0, 2, 4] False\n"


@pytest.mark.parametrize("module", ["smdebug.trials", "smdebug.pytorch"])
def test_the_profiler_s_data_is_a_trial_too(tmp_path, module):
    Profiling(tmp_path).samples({"cpu": [[10.0], [20.0]]})
    code = (
        f"from {module} import create_trial\n"
        f"trial = create_trial({str(tmp_path)!r}, profiler=True, output_dir='/tmp')\n"
        "start = trial.first_timestamp\n"
        "print([each.value for each in trial.get_system_metrics(start, start + 10**6)])"
    )
    assert run_script(code) == "[10.0, 20.0]\n"


def test_an_installed_original_comes_first(tmp_path):
    (tmp_path / "smdebug").mkdir()
    (tmp_path / "smdebug" / "__init__.py").write_text("origin = 'installed'")
    code = (
        "from trackside import smdebug_alias\n"
        "assert not smdebug_alias.is_needed()\n"
        "smdebug_alias.make_importable()\n"
        "import smdebug; print(smdebug.origin)"
    )
    assert run_script(code, first_on_path=tmp_path) == "installed\n"


def test_a_process_without_the_path_can_be_given_the_alias():
    code = (
        "import sys\n"
        f"sys.path.remove({str(smdebug_alias.FOLDER)!r})\n"
        "from trackside import smdebug_alias\n"
        "assert smdebug_alias.is_needed()\n"
        "smdebug_alias.make_importable(); smdebug_alias.make_importable()\n"
        "import smdebug; print(sys.path.count(str(smdebug_alias.FOLDER)), smdebug.modes.EVAL.name)"
    )
    assert run_script(code) == "1 EVAL\n"
