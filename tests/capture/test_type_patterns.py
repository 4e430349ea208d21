from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tests.capture.networks import Net, read, train
from trackside.capture.hook import Hook
from trackside.capture.selection.collection import Collection
from trackside.capture.selection.type_patterns import DEFAULT_PATTERNS


class Plain(nn.Module):
    """No name in it says what anything is."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(50, 4)
        self.places = nn.Embedding(8, 4)
        self.body = nn.Sequential(
            nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.Tanh(), nn.Sigmoid(), nn.GELU()
        )
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        result: Tensor = self.head(self.body(x).mean(1))
        return result


def tokens() -> tuple[Tensor, Tensor]:
    return torch.randint(0, 50, (4, 8)), torch.randint(0, 3, (4,))


def saved(folder: Path, model: nn.Module, make_batch: Any, **patterns: str) -> dict[str, list[str]]:
    hook = Hook(folder, include_collections=list(patterns))
    for name, pattern in patterns.items():
        hook.add_collection(Collection(name, pattern))
    hook.register_module(model)
    train(model, 1, make_batch=make_batch)
    hook.close()
    trial = read(folder)
    return {name: trial.tensor_names(collection=name) for name in patterns}


def test_a_default_pattern_that_matches_no_name_goes_by_type(tmp_path):
    assert saved(tmp_path, Plain(), tokens, **DEFAULT_PATTERNS) == {
        "relu_output": ["body.1_output_0"],
        "relu_input": ["body.1_input_0", "body.5_input_0"],
        "tanh_input": ["body.3_input_0"],
        "sigmoid_input": ["body.4_input_0"],
        "input_image": ["Plain_input_0"],
        "input_sequence": ["tokens_input_0"],
    }


def test_a_default_pattern_that_matches_is_left_as_it_is(tmp_path):
    model = Net()
    make_batch = lambda: (torch.randn(4, 1, 6, 6), torch.randint(0, 3, (4,)))  # noqa: E731
    found = saved(tmp_path, model, make_batch, relu_output=DEFAULT_PATTERNS["relu_output"])
    assert found == {"relu_output": ["relu_output_0", "relu_output_1", "sub.relu_output_0"]}


def test_a_pattern_of_the_user_s_own_is_left_alone(tmp_path):
    assert saved(tmp_path, Plain(), tokens, relu_output="nobody") == {"relu_output": []}


def test_a_module_that_runs_again_has_all_its_outputs(tmp_path):
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.act = nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.act(self.fc(self.act(self.fc(x))))
            return result

    make_batch = lambda: (torch.randn(4, 4), torch.randint(0, 3, (4,)))  # noqa: E731
    found = saved(tmp_path, Twice(), make_batch, relu_output=DEFAULT_PATTERNS["relu_output"])
    assert found == {"relu_output": ["act_output_0", "act_output_1"]}


def test_a_class_that_only_shares_a_name_is_safe(tmp_path):
    class Embedding(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x

    model = nn.Sequential(Embedding(), nn.Linear(4, 3))
    make_batch = lambda: (torch.randn(4, 4), torch.randint(0, 3, (4,)))  # noqa: E731
    found = saved(tmp_path, model, make_batch, input_sequence=DEFAULT_PATTERNS["input_sequence"])
    assert found == {"input_sequence": ["0_input_0"]}


def test_where_everything_is_saved_rules_find_theirs_by_type(tmp_path):
    hook = Hook(tmp_path, save_all=True)
    model = Plain()
    hook.register_module(model)
    train(model, 1, make_batch=tokens)
    hook.close()
    trial = read(tmp_path)
    assert trial.tensor_names(collection="relu_output") == ["body.1_output_0"]
    assert trial.tensor_names(collection="input_sequence") == ["tokens_input_0"]
