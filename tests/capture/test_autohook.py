"""Scripts that know nothing of capture, run as real processes with our `sitecustomize` in front."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import trackside.capture
from tests.capture.networks import read
from trackside.capture.modes import ModeKeys

SITE = Path(trackside.capture.__file__).parent / "site"
SOURCE = Path(trackside.capture.__file__).parents[2]

HEAD = """
import torch, torch.nn.functional as F
from torch import nn
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.out = nn.Linear(4, 2)
    def forward(self, x):
        return self.out(self.fc(x).relu())

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
"""


def run_script(tmp_path: Path, body: str, **options: Any) -> str:
    return run_ended(tmp_path, body, **options).stdout


def run_ended(
    tmp_path: Path, body: str, *, switch: str = "auto", hook=None, site=(), head: str = HEAD
) -> subprocess.CompletedProcess[str]:
    config = tmp_path / "debughookconfig.json"
    config.write_text(
        json.dumps(
            {
                "LocalPath": str(tmp_path / "t"),
                "HookParameters": {"save_interval": "2", **(hook or {})},
                "CollectionConfigurations": [{"CollectionName": "gradients"}],
            }
        )
    )
    script = tmp_path / "train.py"
    script.write_text(head + textwrap.dedent(body))
    paths = [str(SITE), *map(str, site), str(SOURCE)]
    ended = subprocess.run(
        [sys.executable, str(script)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "TRACKSIDE_CAPTURE": switch,
            "SMDEBUG_CONFIG_FILE_PATH": str(config),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended


pytestmark = pytest.mark.timeout(400)


def test_a_plain_loop_with_a_loss_module_and_validation(tmp_path):
    run_script(
        tmp_path,
        """
        criterion = nn.CrossEntropyLoss()
        for epoch in range(2):
            model.train()
            for _ in range(3):
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                criterion(model(x), y)
        """,
    )

    trial = read(tmp_path / "t")
    assert trial.steps(ModeKeys.TRAIN) == [0, 2, 4]
    assert trial.steps(ModeKeys.EVAL) == [0]
    assert trial.tensor_names(collection="losses") == [
        "CrossEntropyLoss_input_0",
        "CrossEntropyLoss_input_1",
        "CrossEntropyLoss_output_0",
    ]
    assert trial.tensor("CrossEntropyLoss_output_0").steps(ModeKeys.EVAL) == [0]
    assert trial.tensor("gradient/Net_fc.weight").steps(ModeKeys.TRAIN) == [0, 2, 4]
    saved = json.loads((tmp_path / "t" / "collections" / "worker_0.json").read_text())
    assert saved["_meta"] == {"num_workers": 1, "gradients_at": "optimizer"}


def test_a_functional_loss_is_recorded_in_evaluation_though_no_backward_shows_it(tmp_path):
    printed = run_script(
        tmp_path,
        """
        for epoch in range(3):
            model.train()
            out = model(x)
            with torch.no_grad():
                F.l1_loss(out, torch.zeros(8, 2))  # a figure of the script's own
            optimizer.zero_grad()
            loss = F.cross_entropy(out, y)
            print(loss.item())
            loss.backward()
            optimizer.step()
            model.eval()
            with torch.set_grad_enabled(epoch == 2):  # which some forget to turn off
                out = model(x)
                F.cross_entropy(out, y, reduction="sum")
                print(F.cross_entropy(out, y).item())
                F.cross_entropy(out, 1 - y)
        """,
        hook={"save_interval": "1"},
    )

    trial = read(tmp_path / "t")
    assert trial.tensor_names(collection="losses") == ["loss_output_0"]
    loss = trial.tensor("loss_output_0")
    seen = [
        float(loss.value(step, mode))
        for step in loss.steps(ModeKeys.EVAL)
        for mode in (ModeKeys.TRAIN, ModeKeys.EVAL)
    ]
    assert seen == pytest.approx([float(line) for line in printed.split()])


def test_a_functional_loss_with_accumulation_and_a_second_model(tmp_path):
    run_script(
        tmp_path,
        """
        class Critic(nn.Linear):
            pass
        critic = Critic(2, 1)
        both = torch.optim.SGD([*model.parameters(), *critic.parameters()], lr=0.1)
        for step in range(4):
            out = model(x)
            (critic(out).mean() + F.cross_entropy(out, y)).backward()
            if step % 2 == 0:
                both.step()
                both.zero_grad()
        """,
    )

    trial = read(tmp_path / "t")
    assert trial.tensor_names(collection="losses") == ["loss_output_0"]
    assert trial.steps() == [0, 2]  # two models and one backward make one step
    assert {"gradient/Net_fc.weight", "gradient/Critic_weight"} <= set(trial.tensor_names())


def test_an_output_that_carries_its_loss_is_recorded_once_in_training_and_in_evaluation(tmp_path):
    printed = run_script(
        tmp_path,
        """
        from collections import OrderedDict
        class Wrapped(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = model
            def forward(self, x, y):
                return OrderedDict(loss=F.cross_entropy(self.net(x), y), logits=x)
        wrapped = Wrapped()
        for _ in range(3):
            loss = wrapped(x, y)["loss"]
            loss.backward()
            optimizer.step()
            print(loss.item())
        wrapped.eval()
        with torch.no_grad():
            print(wrapped(x, y)["loss"].item())
        """,
    )

    losses = [float(line) for line in printed.split()]
    tensor = read(tmp_path / "t").tensor("loss_output_0")
    assert float(tensor.value(0, ModeKeys.TRAIN)) == pytest.approx(losses[0])
    assert float(tensor.value(0, ModeKeys.EVAL)) == pytest.approx(losses[3])


def test_gradients_of_a_closure_belong_to_the_step_it_runs(tmp_path):
    printed = run_script(
        tmp_path,
        """
        import json
        seen = []
        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            seen.append(model.fc.bias.grad.tolist())
            return loss
        for _ in range(3):
            optimizer.step(closure)
        model.eval()
        with torch.no_grad():
            model(x)
        print(json.dumps(seen))
        """,
        hook={"save_interval": "1"},
    )

    gradient = read(tmp_path / "t").tensor("gradient/Net_fc.bias")
    assert gradient.steps(ModeKeys.TRAIN) == [0, 1, 2]
    saved = [gradient.value(step, ModeKeys.TRAIN).tolist() for step in range(3)]
    assert saved == json.loads(printed)


def test_a_model_that_is_traced_before_its_first_call_has_nothing_of_ours_in_it(tmp_path):
    output = run_script(
        tmp_path,
        """
        traced = torch.jit.trace(model, x, check_trace=False)
        print(sorted({each.kind() for each in traced.fc.graph.nodes()}))
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(traced(x), y).backward()
            optimizer.step()
        """,
    )
    assert "view" not in output
    assert "aten::linear" in output
    assert read(tmp_path / "t").steps() == [0, 2]


def test_a_model_that_trains_in_evaluation_mode_is_found(tmp_path):
    run_script(
        tmp_path,
        """
        model.eval()
        judge = Net().eval()  # has gradients, too, but nobody trains it
        for step in range(6):
            optimizer.zero_grad()
            out = model(x)
            (F.cross_entropy(out, y) + judge(x).sum() * 0).backward()
            optimizer.step()
        """,
    )

    trial = read(tmp_path / "t")
    assert trial.modes() == [ModeKeys.EVAL]
    assert "gradient/Net_fc.weight" in trial.tensor_names()
    anatomy = trackside.capture.read_anatomy(tmp_path / "t")
    assert anatomy is not None
    assert anatomy.models == ("Net",)
    assert anatomy.num_forwards(training=False, grad=True) == 5  # all but the first
    assert [(each.training, each.count) for each in anatomy.backwards] == [(False, 5)]


def test_a_loss_module_that_a_model_makes_in_each_call_keeps_one_name(tmp_path):
    run_script(
        tmp_path,
        """
        class Wrapped(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = model
            def forward(self, x, y):
                return {"loss": nn.CrossEntropyLoss()(self.net(x), y)}
        wrapped = Wrapped()
        for _ in range(30):
            wrapped(x, y)["loss"].backward()
            optimizer.step()
        """,
    )

    trial = read(tmp_path / "t")
    assert trial.tensor_names(collection="losses") == ["loss_output_0"]
    assert trial.tensor("loss_output_0").steps() == [*range(0, 30, 2)]


def test_a_loss_module_that_the_script_makes_for_each_step_keeps_one_name(tmp_path):
    printed = run_script(
        tmp_path,
        """
        for _ in range(30):
            optimizer.zero_grad()
            loss = nn.CrossEntropyLoss()(model(x), y)
            loss.backward()
            optimizer.step()
        print(loss.item())
        """,
        hook={"save_interval": "1"},
    )

    trial = read(tmp_path / "t")
    assert trial.tensor_names(collection="losses") == [
        "CrossEntropyLoss_input_0",
        "CrossEntropyLoss_input_1",
        "CrossEntropyLoss_output_0",
    ]
    loss = trial.tensor("CrossEntropyLoss_output_0")
    assert loss.steps() == [*range(30)]
    assert float(loss.value(29)) == pytest.approx(float(printed))


def test_a_script_that_brings_its_own_hook_is_left_to_it(tmp_path):
    run_script(
        tmp_path,
        """
        from trackside.capture.hook import Hook
        hook = Hook.create_from_json_file()
        hook.register_module(model)
        for _ in range(3):
            model(x).sum().backward()
        assert hook.step == 2
        assert not torch.nn.modules.module._global_forward_pre_hooks
        """,
    )

    assert read(tmp_path / "t").steps() == [0, 2]


def test_switched_off_it_leaves_no_trace(tmp_path):
    run_script(
        tmp_path,
        """
        import sys
        model(x).sum().backward()
        assert "trackside.capture.hook" not in sys.modules
        assert not torch.nn.modules.module._global_forward_pre_hooks
        """,
        switch="off",
    )

    assert not (tmp_path / "t").exists()


def test_a_broken_configuration_costs_the_capture_and_not_the_training(tmp_path):
    run_script(
        tmp_path,
        "model(x).sum().backward()",
        hook={"save_interval": "often"},
    )


def test_another_sitecustomize_still_runs(tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import builtins\nbuiltins.other_ran = True\n")

    assert run_script(tmp_path, "print(other_ran)", site=[folder], head="").strip() == "True"


def test_results_are_bit_identical_with_and_without(tmp_path):
    body = """
    for _ in range(30):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    print([p.tolist() for p in model.parameters()])
    """

    assert run_script(tmp_path, body) == run_script(tmp_path, body, switch="off")


def test_modules_in_a_plain_list_and_training_in_evaluation_mode_are_facts(tmp_path):
    run_script(
        tmp_path,
        """
        class Hidden(Net):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]
            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return super().forward(x)

        model = Hidden()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model.eval()
        for _ in range(4):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        """,
    )
    anatomy = trackside.capture.read_anatomy(tmp_path / "t")
    assert anatomy is not None
    assert [(each.type, each.has_gradient) for each in anatomy.strangers] == [("Linear", True)] * 2
    assert not any(each.is_optimized for each in anatomy.strangers)
    # The first step distinguishes a model trained in evaluation mode from one that only predicts.
    assert [(each.training, each.count) for each in anatomy.backwards] == [(False, 3)]


def test_a_model_that_trains_later_is_found_and_its_teacher_does_not_change_its_mode(tmp_path):
    body = """
    for _ in range(30):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()

    class Student(Net):
        pass

    student = Student()
    later = torch.optim.SGD(student.parameters(), lr=0.1)
    for _ in range(30):
        later.zero_grad()
        loss = F.mse_loss(student(x), model(x).detach())
        loss.backward()
        later.step()
    """
    run_script(tmp_path, body)
    anatomy = trackside.capture.read_anatomy(tmp_path / "t")
    assert anatomy is not None
    assert anatomy.models == ("Net", "Student")
    # Its first update is what shows the student.
    assert [(each.training, each.count) for each in anatomy.backwards] == [(True, 59), (False, 1)]
    assert [each.num_steps for each in anatomy.optimizers] == [30, 30]


def test_a_model_around_one_that_was_trained_before_goes_on_with_its_steps(tmp_path):
    body = """
    for _ in range(30):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    tuned = nn.Sequential(model, nn.Linear(2, 2))
    later = torch.optim.SGD(tuned.parameters(), lr=0.1)
    for _ in range(30):
        later.zero_grad()
        F.cross_entropy(tuned(x), y).backward()
        later.step()
    """
    assert "could not be set up" not in run_ended(tmp_path, body).stderr
    anatomy = trackside.capture.read_anatomy(tmp_path / "t")
    assert anatomy is not None
    assert [(each.training, each.count) for each in anatomy.backwards] == [(True, 60)]
    assert [each.num_steps for each in anatomy.optimizers] == [30, 30]


def test_an_optimizer_that_is_gone_after_its_step_is_known(tmp_path):
    body = """
    def update():
        short = torch.optim.Adam(model.parameters(), lr=0.1)
        F.cross_entropy(model(x), y).backward()
        short.step()

    for _ in range(30):
        update()
    """
    run_script(tmp_path, body)
    anatomy = trackside.capture.read_anatomy(tmp_path / "t")
    assert anatomy is not None
    assert len(anatomy.optimizers) == 30
    assert {each.num_steps for each in anatomy.optimizers} == {1}


@pytest.mark.parametrize("whole", [pytest.param("", marks=pytest.mark.nightly), ", fullgraph=True"])
def test_a_model_compiled_in_place_is_watched_and_its_graph_stays_whole(tmp_path, whole):
    ended = run_ended(
        tmp_path,
        f"""
        model.compile(backend="aot_eager"{whole})
        for _ in range(5):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        """,
    )
    assert "could not be set up" not in ended.stderr
    assert read(tmp_path / "t").steps() == [0, 2, 4]
