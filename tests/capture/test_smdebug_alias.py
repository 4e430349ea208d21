"""Scripts written for smdebug find every name they import, from us."""

import importlib.util
import json
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
    "smdebug.pytorch.hook": "Hook CollectionKeys CollectionManager set_hook",
    "smdebug.pytorch.collection": "Collection CollectionManager",
    "smdebug.pytorch.singleton_utils": "get_hook set_hook del_hook",
    "smdebug.core.modes": "ModeKeys",
    "smdebug.core.collection": "CollectionKeys",
    "smdebug.core.save_config": "SaveConfig SaveConfigMode",
    "smdebug.core.reduction_config": "ReductionConfig",
    "smdebug.core.tensor": "StepState",
    "smdebug.trials": "create_trial LocalTrial S3Trial",
    "smdebug.trials.profiler_trial": "ProfilerTrial",
    "smdebug.trials.utils": "create_trial",
    "smdebug.core.logger": "get_logger",
    "smdebug.core.json_config": "CONFIG_FILE_PATH_ENV_STR",
    "smdebug.profiler": "ProfilerTrial LocalSystemMetricsReader S3SystemMetricsReader "
    "LocalAlgorithmMetricsReader S3AlgorithmMetricsReader MetricsReaderBase",
    "smdebug.profiler.utils": "str2bool TimeUnits convert_utc_datetime_to_microseconds "
    "convert_utc_timestamp_to_microseconds us_since_epoch_to_human_readable_time",
    "smdebug.profiler.metrics_reader_base": "MetricsReaderBase",
    "smdebug.profiler.system_metrics_reader": "LocalSystemMetricsReader S3SystemMetricsReader",
    "smdebug.profiler.algorithm_metrics_reader": "LocalAlgorithmMetricsReader "
    "S3AlgorithmMetricsReader",
    "smdebug.profiler.python_profile_utils": "PythonProfileModes StepPhase PythonProfilerName "
    "cProfileTimer",
    "smdebug.profiler.analysis.python_profile_analysis": "PyinstrumentAnalysis cProfileAnalysis",
    "smdebug.profiler.analysis.utils.python_profile_analysis_utils": "Metrics",
    "smdebug.profiler.analysis.utils.profiler_data_to_pandas": "PandasFrame",
    "smdebug.profiler.analysis.utils.pandas_data_analysis": "PandasFrameAnalysis StatsBy Resource",
    "smdebug.profiler.analysis.utils.merge_timelines": "MergedTimeline MergeUnit",
    "smdebug.profiler.analysis.utils.pytorch_dataloader_analysis": "PT_dataloader_analysis",
    "smdebug.profiler.analysis.notebook_utils": "MetricsHistogram StepHistogram TrainingJob",
    "smdebug.profiler.analysis.notebook_utils.training_job": "TrainingJob",
    "smdebug.profiler.analysis.notebook_utils.heatmap": "Heatmap",
    "smdebug.profiler.analysis.notebook_utils.metrics_histogram": "MetricsHistogram",
    "smdebug.profiler.analysis.notebook_utils.step_histogram": "StepHistogram",
    "smdebug.profiler.analysis.notebook_utils.step_timeline_chart": "StepTimelineChart",
    "smdebug.profiler.analysis.notebook_utils.timeline_charts": "TimelineCharts",
    "smdebug.tensorflow": "KerasHook SessionHook EstimatorHook Collection CollectionKeys "
    "SaveConfig SaveConfigMode ReductionConfig modes get_hook set_hook del_hook create_trial",
    "smdebug.xgboost": "Hook Collection SaveConfig modes get_hook create_trial",
    "smdebug.mxnet": "Hook Collection SaveConfig modes get_hook create_trial",
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
    lines.append("from smdebug.pytorch.hook import *; Hook, CollectionKeys.LOSSES, torch.nn")
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


@pytest.mark.parametrize(
    "module", ["smdebug.trials", pytest.param("smdebug.pytorch", marks=pytest.mark.nightly)]
)
def test_the_profiler_s_data_is_a_trial_too(tmp_path, module):
    Profiling(tmp_path).samples({"cpu": [[10.0], [20.0]]})
    code = (
        f"from {module} import create_trial\n"
        f"trial = create_trial({str(tmp_path)!r}, profiler=True, output_dir='/tmp')\n"
        "start = trial.first_timestamp\n"
        "print([each.value for each in trial.get_system_metrics(start, start + 10**6)])"
    )
    assert run_script(code) == "[10.0, 20.0]\n"


NOT_OFFERED = [
    ("smdebug.profiler.analysis.notebook_utils.heatmap", "Heatmap(1, 2)", "trackside report"),
    ("smdebug.profiler.analysis.utils.merge_timelines", "MergedTimeline('x')", "Chrome traces"),
    ("smdebug.profiler.analysis.python_profile_analysis", "cProfileAnalysis()", "py-spy"),
    ("smdebug.tensorflow", "KerasHook(out_dir='x')", "Trackside watches PyTorch"),
    ("smdebug.tensorflow", "KerasHook.create_from_json_file()", "Trackside watches PyTorch"),
    ("smdebug.xgboost", "Hook(out_dir='x')", "Trackside watches PyTorch"),
]


def test_what_is_not_offered_raises_where_it_is_used():
    names = [use.partition("(")[0].partition(".")[0] for _, use, _ in NOT_OFFERED]
    lines = ["from smdebug.exceptions import SMDebugNotImplementedError", "said = []"]
    for (module, use, _), name in zip(NOT_OFFERED, names, strict=True):
        lines.append(f"from {module} import {name}")
        lines.append(
            f"try: {use}\nexcept SMDebugNotImplementedError as error: said.append(f'{{error}}')"
        )
    said = json.loads(run_script("\n".join([*lines, "import json; print(json.dumps(said))"])))
    for message, name, (_, _, instead) in zip(said, names, NOT_OFFERED, strict=True):
        assert message.startswith(f"{name!r} of smdebug is not offered by Trackside. ")
        assert instead in message


def test_a_framework_that_is_not_watched_has_no_hook_and_logs_it_once():
    code = (
        "import logging, sys; logging.basicConfig(stream=sys.stdout)\n"
        "import smdebug.tensorflow as smd\n"
        "assert [smd.get_hook('keras', create_if_not_exists=True) for _ in 'ab'] == [None, None]\n"
        "assert 'torch' not in sys.modules"
    )
    assert run_script(code).count("Not watched: TensorFlow") == 1


def test_str2bool_reads_what_hyperparameters_hold():
    code = (
        "from smdebug.profiler.utils import str2bool\n"
        "print([str2bool(text) for text in (True, 'True', 'no', '1', 'off', False)])\n"
        "try: str2bool('perhaps')\n"
        "except ValueError as error: print(error)"
    )
    values, refusal = run_script(code).splitlines()
    assert values == "[True, True, False, True, False, False]"
    assert refusal.startswith("'perhaps' is neither true nor false.")


def test_the_profiler_s_readers_and_tables(tmp_path):
    profiling = Profiling(tmp_path)
    profiling.samples({"cpu": [[10.0, 30.0], [20.0, 40.0]]})
    profiling.steps([1.0, 2.0, 3.0])
    code = (
        "from smdebug.profiler.utils import TimeUnits\n"
        "from smdebug.profiler.system_metrics_reader import LocalSystemMetricsReader\n"
        "from smdebug.profiler.algorithm_metrics_reader import LocalAlgorithmMetricsReader\n"
        "from smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame\n"
        f"path = {str(tmp_path)!r}\n"
        "system, steps = LocalSystemMetricsReader(path), LocalAlgorithmMetricsReader(path)\n"
        "system.refresh_event_file_list()\n"
        "last = system.get_timestamp_of_latest_available_file()\n"
        "print(last - system.get_timestamp_of_first_available_file())\n"
        "found = system.get_events(last / 1e6, last / 1e6 + 1, unit=TimeUnits.SECONDS)\n"
        "print([(e.name, e.type, e.dimension, e.value) for e in found])\n"
        "print([e.event_args['step_num'] for e in steps.get_events_by_step(0, 2)])\n"
        "frame = PandasFrame(path)\n"
        "figures = frame.get_all_system_metrics(selected_system_metrics=['cpu1'])\n"
        "print(figures['value'].tolist(), figures['timestamp_us'].tolist())\n"
        "phases = ['Step:ModeKeys.TRAIN']\n"
        "events = frame.get_all_framework_metrics(selected_framework_metrics=phases)\n"
        "print(((events['end_time_us'] - events['start_time_us']) / 1e6).tolist())"
    )
    assert run_script(code).splitlines() == [
        "500000",
        "[('cpu0', 'cpu', 'CPUUtilization', 20.0), ('cpu1', 'cpu', 'CPUUtilization', 40.0)]",
        "[0, 1]",
        "[30.0, 40.0] [0, 500000]",
        "[1.0, 2.0, 3.0]",
    ]


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
