import json
import math
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.capture.networks import Net, read, train
from tests.conftest import environment_for
from trackside.capture.hook import Hook
from trackside.capture.selection.reduction_config import ReductionConfig
from trackside.capture.selection.save_config import SaveConfig
from trackside.capture.trial_layout import FAILURES, RECORDER_REPORT, RECORDER_REQUEST

EVERY_STEP = SaveConfig(save_interval=1)
RAW = ReductionConfig(save_raw_tensor=True)
REDUCED = ReductionConfig(["min", "max", "std"])


def recording(
    out_dir: Path, model: nn.Module, config: ReductionConfig = RAW, ring: int = 3
) -> Hook:
    hook = Hook(
        out_dir,
        save_config=EVERY_STEP,
        include_collections=["weights", "gradients"],
        reduction_config=config,
        ring=ring,
    )
    hook.register_module(model)
    return hook


def dumps(out_dir: Path) -> Any:
    return json.loads((out_dir / RECORDER_REPORT).read_text())


def test_its_report_and_capture_errors_reach_an_object_store(s3_server, monkeypatch):
    for name, value in environment_for(s3_server.url).items():
        monkeypatch.setenv(name, value)
    bucket = s3_server.make_bucket()
    hook = Hook(
        f"s3://{bucket}/run",
        save_config=EVERY_STEP,
        include_collections=["weights", "empty one"],  # which has no pattern: a failure
        ring=3,
    )
    model = Net()
    hook.register_module(model)
    train(model, 2)
    with torch.no_grad():
        model.out.weight[0, 0] = math.nan
    train(model, 2)
    hook.close()

    def load(name: str) -> Any:
        found = s3_server.client().get_object(Bucket=bucket, Key=f"run/{name}")
        return json.loads(found["Body"].read())

    (dumped,) = load(RECORDER_REPORT)
    assert (dumped["reason"], dumped["tensor"]) == ("not finite", "Net_out.weight")
    assert "empty one" in load(FAILURES)["errors"][0]["message"]


def test_nothing_is_written_while_nothing_happens(tmp_path):
    model = Net()
    hook = recording(tmp_path / "t", model)
    train(model, 5)
    hook.close()

    assert read(tmp_path / "t").steps() == []


@pytest.mark.parametrize("config", [RAW, REDUCED], ids=["raw", "reduced"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_the_first_value_that_is_not_finite_is_named_and_the_last_steps_are_written(
    tmp_path, config, bad, caplog
):
    model = Net()
    hook = recording(tmp_path / "t", model, config)

    def poison(step):
        if step == 5:
            with torch.no_grad():
                model.out.weight[0, 0] = bad

    train(model, 9, each=poison)
    hook.close()

    trial = read(tmp_path / "t")
    assert trial.steps() == [4, 5, 6]
    (dump,) = dumps(tmp_path / "t")
    assert dump == {
        "reason": "not finite",
        "tensor": "Net_out.weight",
        "step": 6,
        "mode": "GLOBAL",
        "steps": [4, 5, 6],
    }
    assert "Net_out.weight is not finite at step 6" in caplog.text


def test_a_single_elements_spread_is_no_alarm(tmp_path):
    model = nn.Linear(1, 1)
    hook = recording(tmp_path / "t", model, REDUCED)
    for _ in range(3):
        model(torch.ones(1, 1)).sum().backward()
    hook.close()

    assert not (tmp_path / "t" / RECORDER_REPORT).exists()


def test_it_is_written_on_request_by_call_and_by_file(tmp_path):
    model = Net()
    hook = recording(tmp_path / "t", model)
    train(model, 4)
    hook.dump()
    train(model, 2)
    (tmp_path / "t" / RECORDER_REQUEST).touch()
    train(model, 2)
    hook.close()

    assert read(tmp_path / "t").steps() == [1, 2, 3, 4, 5]
    assert [dump["reason"] for dump in dumps(tmp_path / "t")] == ["asked for", "asked for"]
    assert not (tmp_path / "t" / RECORDER_REQUEST).exists()


def test_a_script_that_dies_leaves_its_last_steps(tmp_path):
    script = textwrap.dedent(
        """
        import sys, torch
        from torch import nn
        from trackside.capture.hook import Hook
        from trackside.capture.selection.save_config import SaveConfig

        model = nn.Linear(2, 2)
        hook = Hook(sys.argv[1], save_config=SaveConfig(save_interval=1),
                    include_collections=["weights"], ring=2)
        hook.register_module(model)
        for step in range(5):
            model(torch.ones(1, 2))
        raise KeyError("the script's own mistake")
        """
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "t")],
        capture_output=True,
        text=True,
    )

    assert "the script's own mistake" in ended.stderr
    assert read(tmp_path / "t").steps() == [3, 4]
    assert "KeyError" in dumps(tmp_path / "t")[0]["error"]
