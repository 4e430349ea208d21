"""Exceptions of PyTorch are explained by their message, and better by what they passed through."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from tests.rules.recording import judge
from trackside.capture.model.function_patches import FunctionPatch
from trackside.capture.model.names import Names
from trackside.capture.reading.anatomy import parse_anatomy
from trackside.capture.trial import create_trial
from trackside.capture.vitals.crash import crash_facts
from trackside.rules.checkup.crash_causes import explain
from trackside.rules.checkup.crashes import Crash

MODEL = """
import torch
from torch import nn
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.norm = nn.BatchNorm1d(8)
        self.image = nn.Conv2d(3, 4, 3)
        self.memory = nn.LSTM(8, 8)
        self.last = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def forward(self, x, part=None):
        return self.head(x) if part is None else getattr(self, part)(x)

net = Net()
x, y = torch.randn(4, 8), torch.tensor([0, 1, 2, 1])
""".lstrip()
TRAINING = """
import sys
from trackside.capture.hook import Hook

hook = Hook(sys.argv[1], gradients_at="optimizer")
hook.register_module(net)
hook.follow_training()
F.cross_entropy(net(x), y).backward()
""".lstrip()

CASES = {
    "labels from one": (
        "F.cross_entropy(net(x), y + 1)",
        "A label is 3, and the model has 3 outputs, for classes 0 to 2 (train.py:20).",
        "Labels begin at 1: subtract 1",
    ),
    "labels with a gap": (
        "F.cross_entropy(net(x), y * 4)",
        "A label is 4, and the model has 3 outputs, for classes 0 to 2 (train.py:20).",
        "an output for every class",
    ),
    "labels below zero": (
        "F.cross_entropy(net(x), y - 1)",
        "A label is -1, and the model has 3 outputs, for classes 0 to 2 (train.py:20).",
        "ignore_index",
    ),
    "tokens": (
        "net(torch.tensor([[1, 25]]), 'words')",
        "Layer 'words' has 20 rows, and gets the index 25 (train.py:16).",
        "vocabulary",
    ),
    "features": (
        "net(torch.randn(4, 6))",
        "Layer 'head' expects 8 features and gets 6 in an input of shape [4, 6] (train.py:16).",
        "a layer of 6 inputs",
    ),
    "an image that was not flattened": (
        "net(torch.randn(5, 2, 2, 2))",
        "Layer 'head' expects 8 features and gets 2 in an input of shape "
        "[5, 2, 2, 2] (train.py:16).",
        "Flatten the input",
    ),
    "channels last": (
        "net(torch.randn(2, 9, 9, 3), 'image')",
        "Layer 'image' expects 3 channels and gets 9 in an input of shape "
        "[2, 9, 9, 3] (train.py:16).",
        "permute",
    ),
    "grey images": (
        "net(torch.randn(2, 1, 9, 9), 'image')",
        "Layer 'image' expects 3 channels and gets 1 in an input of shape "
        "[2, 1, 9, 9] (train.py:16).",
        "grey",
    ),
    "another number of targets": (
        "F.cross_entropy(net(x), y[:2])",
        "The loss gets 4 predictions for 2 targets: shapes [4, 3] and [2] (train.py:20).",
        "flattened",
    ),
    "sizes": (
        "net(x) + torch.ones(4, 2)",
        "Two tensors of 3 and 2 elements along axis 1 are combined: x [4, 8], y [4] (train.py:20).",
        "drop_last",
    ),
    "one axis more": (
        "F.binary_cross_entropy_with_logits(net(x)[:, :1], y.float())",
        "The loss gets predictions of shape [4, 1] and targets of shape [4] (train.py:20).",
        "squeeze(1)",
    ),
    "double": (
        "net(x.double())",
        "Layer 'head' gets Double and Float values at once (train.py:16).",
        "x.float()",
    ),
    "bytes": (
        "net(torch.zeros(2, 3, 9, 9, dtype=torch.uint8), 'image')",
        "Layer 'image' gets unsigned char and float values at once (train.py:16).",
        "x.float()",
    ),
    "targets as amounts": (
        "F.cross_entropy(net(x), y.float())",
        "The loss over classes gets targets of type Float (train.py:20).",
        "y.long()",
    ),
    "tokens as amounts": (
        "net(x, 'words')",
        "Layer 'words' gets Float values for indices (train.py:16).",
        "x.long()",
    ),
    "no graph": (
        "net(x).argmax(1).float().mean().backward()",
        "The loss does not depend on any parameter that is trained (train.py:20).",
        "argmax()",
    ),
    "graph used twice": (
        "loss = net(x).exp().sum(); loss.backward(); loss.backward()",
        "backward() goes through a graph for the second time (train.py:20).",
        "detach()",
    ),
    "changed in place": (
        "h = net(x).exp(); z = h * h; h += 1; z.sum().backward()",
        "A tensor that backward() needs was changed in place: [torch.FloatTensor [4, 3]], which is "
        "output 0 of Add (train.py:20).",
        "x = x + y",
    ),
    "memory": (
        "torch.empty(10**15)",
        "There is not enough memory for 4000000000000000 bytes more; the largest tensor there has "
        "shape [4, 8] (train.py:20).",
        "smaller batch",
    ),
    "samples of several sizes": (
        "torch.utils.data.default_collate([torch.zeros(3), torch.zeros(4)])",
        "Samples of a batch have different sizes: [3] and [4] (train.py:20).",
        "collate_fn",
    ),
    "a batch of one": (
        "net(x[:1], 'norm')",
        "Layer 'norm' gets a single sample of shape [1, 8] in training mode (train.py:16).",
        "drop_last",
    ),
    "no probabilities": (
        "F.binary_cross_entropy(torch.full((4,), 2.0), y / 2)",
        "binary_cross_entropy gets values that are no probabilities: they lie between 2 and 2 "
        "(train.py:20).",
        "with_logits",
    ),
    "not reduced": (
        "net(x).backward()",
        "backward() is called on a tensor of shape [4, 3], not on one number (train.py:20).",
        "loss.mean()",
    ),
    "width of a sequence": (
        "net(torch.randn(3, 2, 9), 'memory')",
        "Layer 'memory' expects 8 features in the last axis and gets 9 (train.py:16).",
        "batch_first",
    ),
    "width of a norm": (
        "net(torch.randn(2, 9), 'last')",
        "Layer 'last' expects 8 features in the last axis and gets 9 (train.py:16).",
        "9 features",
    ),
}


def raised(line: str) -> dict[str, Any]:
    """What is noted of the exception that this line raises, as of one that ends a process."""
    code = compile(MODEL + line, "train.py", "exec")
    names: dict[str, Any] = {"__name__": "train"}
    with pytest.raises(Exception, match=".") as caught:
        exec(code, names)
    assert caught.value.__traceback__ is not None
    caught.value.__traceback__ = caught.value.__traceback__.tb_next  # without this function
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "last_value", caught.value, raising=False)
        facts = crash_facts([Names(names["net"])])
    assert facts is not None
    return facts


@pytest.mark.parametrize("case", CASES)
def test_an_exception_is_explained(case: str):
    line, message, advice = CASES[case]
    anatomy, num_damaged = parse_anatomy({"crash": json.loads(json.dumps(raised(line)))})
    assert not num_damaged
    assert anatomy.crash is not None
    explained = explain(anatomy.crash.message, anatomy.crash.calls)
    assert explained is not None
    assert explained.message == message
    assert advice in explained.advice


@pytest.mark.parametrize("case", CASES)
def test_its_message_alone_is_explained_too(case: str):
    line, _, advice = CASES[case]
    explained = explain(raised(line)["message"])
    assert explained is not None
    assert "train.py" not in explained.message
    assert explained.layer == ""


def test_the_wrappers_of_capture_are_not_named():
    patch = FunctionPatch()
    patch.wrap(Tensor, "backward", before=lambda *args, **kwargs: None)
    try:
        calls = raised("F.cross_entropy(net(x), y, reduction='none').backward()")["calls"]
    finally:
        patch.undo()
    assert calls[0]["path"].endswith("train.py")
    assert not [each for each in calls if "function_patches" in each["path"]]


def test_a_state_for_another_batch_size_is_explained():
    calls = raised("net.memory(torch.randn(5, 3, 8), (torch.zeros(1, 4, 8), torch.zeros(1, 4, 8)))")
    anatomy, _ = parse_anatomy({"crash": json.loads(json.dumps(calls))})
    assert anatomy.crash is not None
    explained = explain(anatomy.crash.message, anatomy.crash.calls)
    assert explained is not None
    assert explained.message.startswith(
        "A recurrent layer expects a state of shape (1, 3, 8) for this batch and gets (1, 4, 8)"
    )
    assert "the last batch of an epoch is smaller" in explained.advice
    assert explained.layer == "memory"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "net.load_state_dict({f'module.{k}': v for k, v in net.state_dict().items()})",
            "names its parameters module.NAME",
        ),
        (
            "net.load_state_dict({k: v[:2] for k, v in net.state_dict().items() if v.dim()},"
            " strict=False)",
            "has shape [20, 8] in the model and [2, 8] in the file",
        ),
        ("torch.optim.SGD([p for p in net.parameters() if p.dim() > 9])", "gets no parameters"),
        ("x.view(3, -1)", "32 values are viewed as shape [3, -1]"),
        (
            # Compiling anything in this process turns the default off.
            "torch.distributions.Categorical(logits=x * float('nan'), validate_args=True)",
            "The logits of a Categorical distribution are NaN",
        ),
        ("F.cross_entropy(torch.randn(2, 5, 3), torch.zeros(2, 5).long())", "[2, 3] and gets"),
        ("torch.cat([x, x[:2]], 1)", "concatenated along axis 1 have 4 and 2 elements"),
    ],
)
def test_a_message_that_says_enough_is_explained(line: str, said: str):
    explained = explain(raised(line)["message"])
    assert explained is not None
    assert said in explained.message
    assert explained.advice


def test_the_end_of_a_long_message_is_kept():
    facts = raised("raise RuntimeError('a' * 5000 + 'Target 7 is out of bounds.')")
    explained = explain(facts["message"])
    assert explained is not None
    assert explained.message.startswith("A label is 7")


def test_other_exceptions_explain_themselves():
    assert explain("could not convert string to float: 'a'") is None
    assert explain("") is None


def test_a_training_that_ends_by_an_exception_has_a_finding(tmp_path: Path):
    (tmp_path / "train.py").write_text(MODEL + TRAINING + "F.cross_entropy(net(x), y + 1)\n")
    command = [sys.executable, "train.py", str(tmp_path / "trial")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "IndexError" in done.stderr
    [finding] = judge(Crash(), create_trial(str(tmp_path / "trial")))
    assert finding.message.startswith("A label is 3, and the model has 3 outputs")
    assert "train.py:27" in finding.message
    assert "subtract 1" in finding.advice


def test_a_training_that_ends_well_has_none(tmp_path: Path):
    (tmp_path / "train.py").write_text(MODEL + TRAINING)
    command = [sys.executable, "train.py", str(tmp_path / "trial")]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert not judge(Crash(), create_trial(str(tmp_path / "trial")))
