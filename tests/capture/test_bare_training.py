"""Scripts that train tensors without any module, run as real processes."""

from pathlib import Path

import pytest

from tests.capture.networks import read
from tests.capture.test_autohook import run_script
from trackside.capture.reading.anatomy import Anatomy, read_anatomy

BARE = """
import torch, torch.nn.functional as F
torch.manual_seed(0)
w1 = torch.randn(4, 3, requires_grad=True)
w2 = torch.randn(3, 2, requires_grad=True)
x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
"""

pytestmark = pytest.mark.timeout(120)


def anatomy_of(folder: Path) -> Anatomy:
    anatomy = read_anatomy(folder)
    assert anatomy is not None
    return anatomy


def test_tensors_of_an_optimizer_are_named_by_their_positions_in_it(tmp_path):
    run_script(
        tmp_path,
        """
        optimizer = torch.optim.SGD([w1, w2], lr=0.1)
        for _ in range(6):
            loss = F.cross_entropy((x @ w1).relu() @ w2, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                F.cross_entropy((x @ w1).relu() @ w2, y)
        """,
        head=BARE,
    )
    trial = read(tmp_path / "t")
    assert trial.steps() == [0, 2, 4]
    assert trial.tensor_names(collection="gradients") == [
        "gradient/BareTensors_optimizer.group0.param0",
        "gradient/BareTensors_optimizer.group0.param1",
    ]
    assert trial.tensor("loss_output_0").steps() == [0, 2, 4]
    anatomy = anatomy_of(tmp_path / "t")
    assert (anatomy.num_backwards, anatomy.num_optimizer_steps) == (6, 6)
    assert all(each.is_trained and each.ever_had_gradient for each in anatomy.parameters)


def test_a_loss_of_ones_own_is_saved_from_the_first_step_on(tmp_path):
    run_script(
        tmp_path,
        """
        optimizer = torch.optim.SGD([w1, w2], lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            ((x @ w1).relu() @ w2).square().mean().backward()
            optimizer.step()
        """,
        head=BARE,
    )
    trial = read(tmp_path / "t")
    assert trial.tensor("loss_output_0").steps() == [0, 2, 4]
    assert anatomy_of(tmp_path / "t").num_backwards == 5


def test_a_tensor_that_no_optimizer_holds_has_a_name_of_its_own(tmp_path):
    run_script(
        tmp_path,
        """
        optimizer = torch.optim.SGD([w2], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy((x @ w1).relu() @ w2, y).backward()
            optimizer.step()
        """,
        head=BARE,
    )
    held = {p.name: p.optimizer for p in anatomy_of(tmp_path / "t").parameters}
    assert held == {"BareTensors_optimizer.group0.param0": 0, "BareTensors_tensor0": None}


def test_descent_by_hand_is_noticed_once_tensors_have_changed(tmp_path):
    run_script(
        tmp_path,
        """
        for _ in range(6):
            F.cross_entropy((x @ w1).relu() @ w2, y).backward()
            with torch.no_grad():
                for w in (w1, w2):
                    w -= 0.1 * w.grad
                    w.grad = None
        """,
        head=BARE,
    )
    trial = read(tmp_path / "t")
    assert trial.steps() == [0, 2, 4]
    assert trial.tensor_names(collection="losses") == ["loss_output_0"]


def test_an_attack_on_a_model_is_no_training(tmp_path):
    run_script(
        tmp_path,
        """
        model = torch.nn.Linear(4, 2).eval()
        x.requires_grad_()
        for _ in range(5):
            F.cross_entropy(model(x), y).backward()
            with torch.no_grad():
                x += 0.1 * x.grad.sign()
                x.grad = None
        """,
        head=BARE,
    )
    assert not (tmp_path / "t").exists()


def test_gradients_of_an_unchanged_input_are_no_training(tmp_path):
    run_script(
        tmp_path,
        """
        for _ in range(5):
            F.cross_entropy((x @ w1).relu() @ w2, y).backward()
        """,
        head=BARE,
    )
    assert not (tmp_path / "t").exists()


def test_an_image_that_is_optimized_through_a_frozen_model_is_what_is_trained(tmp_path):
    run_script(
        tmp_path,
        """
        model = torch.nn.Linear(4, 2).eval()
        image = x.clone().requires_grad_()
        optimizer = torch.optim.Adam([image], lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            F.cross_entropy(model(image), y).backward()
            optimizer.step()
        """,
        head=BARE,
    )
    (image,) = anatomy_of(tmp_path / "t").parameters
    assert image.name == "BareTensors_optimizer.group0.param0"


def test_a_model_that_is_called_first_is_what_is_watched_and_later_ones_too(tmp_path):
    run_script(
        tmp_path,
        """
        def fit(model):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(30):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

        fit(torch.nn.Linear(4, 2))
        fit(torch.nn.Sequential(torch.nn.Linear(4, 2)))
        """,
        head=BARE,
    )
    assert anatomy_of(tmp_path / "t").models == ("Linear", "Sequential")
