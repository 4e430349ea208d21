"""How many steps a training will take."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.conftest import command as command
from tests.cli.conftest import workplace as workplace
from tests.wait import until
from trackside.capture.reading.anatomy import Anatomy, LoaderFacts, OptimizerFacts
from trackside.sdk.known_jobs import known_jobs
from trackside.views.job.live_job import LiveJob
from trackside.views.table.total_steps import counted_steps, steps_of, total_on_own_bar, total_steps


@pytest.mark.parametrize(
    ("given", "total"),
    [
        ({"max_steps": "500"}, 500),
        ({"num-train-steps": '"1e3"'}, 1000),
        ({"iterations": "20"}, 20),
        ({"total_steps": "10_000"}, 10_000),
        ({"epochs": "3"}, None),
        ({"save_steps": "500"}, None),
        ({"warmup_steps": "500"}, None),
        ({"max_steps": "-1"}, None),
        ({"max_steps": "many"}, None),
        ({"max_steps": "1e999"}, None),
        ({"max_steps": "nan"}, None),
        ({}, None),
    ],
)
def test_hyperparameters_say_how_many(given, total):
    assert total_steps(given) == total


@pytest.mark.parametrize("words", [["--max-steps", "500"], ["--lr", "1", "--max_steps=500"]])
def test_arguments_say_how_many(words):
    assert total_steps({}, words) == 500
    assert total_steps({}, ["--max-steps"]) is None
    assert total_steps({}, ["500", "--", "-x"]) is None


TRAINED = LoaderFacts(num_samples=100, batch_size=32, num_trained=6)
EVALUATED = LoaderFacts(num_samples=50, batch_size=32, num_evaluated=4)
SGD = OptimizerFacts(index=0, type="SGD", num_steps=7)


@pytest.mark.parametrize(
    ("anatomy", "epochs", "steps", "counted"),
    [
        (Anatomy(loaders=(TRAINED, EVALUATED)), 5, None, (6, 20)),
        (Anatomy(loaders=(TRAINED,)), 1, None, None),  # more than one epoch has
        (Anatomy(loaders=(TRAINED, TRAINED)), 5, None, None),
        (Anatomy(loaders=(EVALUATED,)), 5, None, None),
        (Anatomy(loaders=(LoaderFacts(num_trained=6),)), 5, None, None),  # a stream
        (Anatomy(optimizers=(SGD,)), None, 10, (7, 10)),
        (Anatomy(optimizers=(SGD, SGD)), None, 10, None),
        (Anatomy(optimizers=(SGD,)), None, None, None),
    ],
)
def test_capture_counts_in_the_unit_that_was_given(anatomy, epochs, steps, counted):
    assert steps_of(anatomy, epochs, steps) == counted


EPOCHS = """
import argparse, torch
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(40, 4), torch.randn(40, 1))
for epoch in range(parser.parse_args().epochs):
    for inputs, targets in DataLoader(data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
"""


def test_a_plain_loop_has_its_progress(command: Command, workplace: Path):
    (workplace / "train.py").write_text(EPOCHS)
    options = ["--rule", "all", "--name", "job-1", "--wait"]
    done = command("run", "train.py", *options, "--", "--epochs", "4")
    assert done.returncode == 0, done.stderr
    jobs = known_jobs()
    # The first batch is taken before there is a model to watch.
    assert counted_steps(jobs.record("job-1"), jobs.settings.layout) == (11, 12)


BAR = """
import sys, time
from pathlib import Path
for step in range(1, 6):
    bar = f"{step}/40 [00:01<00:09, 4.0it/s, loss={1 / step:.3f}]"
    print(f"\\rtraining:  12%|#  | {bar}", end="", file=sys.stderr, flush=True)
print("", file=sys.stderr, flush=True)
while not Path("GO").exists():
    time.sleep(0.1)
"""


def test_a_loop_with_a_bar_has_its_progress(command: Command, workplace: Path):
    """Without hyperparameters, and without capture."""
    go = workplace / "go"
    (workplace / "train.py").write_text(BAR.replace("GO", str(go)))
    done = command("run", "train.py", "--name", "job-1")
    assert done.returncode == 0, done.stderr
    jobs = known_jobs()
    try:
        until(lambda: total_on_own_bar(jobs.record("job-1")) == 40)
        until(lambda: (seen := LiveJob(jobs, "job-1").refresh()).step == 4 and seen.of == 40)
        until(lambda: "job-1" in command("jobs", "progress>0.05").stdout)
    finally:
        go.touch()
    jobs.wait("job-1")
