"""What may have caused an issue: the ranking, and real trainings that were broken on purpose."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.job_processes import end_processes_of
from tests.views.test_code_diff import code
from trackside import Estimator
from trackside.jobs.jobs import Jobs
from trackside.records.channel_data import ChannelData
from trackside.records.channel_data import summary as channel
from trackside.sdk.rule import built_in
from trackside.settings import Settings, environment
from trackside.views.job_setup.code_diff import diff_of
from trackside.views.job_setup.made_of import Key, Made, differences
from trackside.views.problems.issues import Issue, Issues
from trackside.views.problems.job_findings import Seen
from trackside.views.problems.suspects import Suspect, of_code, ranked


def seen(cause: str, **members: str) -> Seen:
    return Seen(issue="1-0", cause=cause, explains=[], **members)  # type: ignore[arg-type]


def changed(kind: str, name: str, before: str = "a", after: str = "b") -> Suspect:
    return Suspect(kind, name, before, after)


RATE = changed("hyperparameter", "lr")
WIDTH = changed("hyperparameter", "width")
DATA = changed("data", "training")
TORCH, OTHER = changed("package", "torch"), changed("package", "requests")
HOST, GPUS = changed("host", "host"), changed("host", "gpus")
COMMIT = changed("git", "commit")
SCHEDULE = changed("code", "train.py:31", "scheduler.step()", "")
PRINTING = changed("code", "train.py:90", "print(1)", "print(2)")
LAYER = changed("code", "model.py:7", "self.up = Linear(8, 8)", "self.up = Linear(8, 9)")
VARIABLE = changed("environment", "OMP_NUM_THREADS")
ALL = [COMMIT, HOST, GPUS, OTHER, TORCH, VARIABLE, DATA, PRINTING, WIDTH, SCHEDULE, RATE]


@pytest.mark.parametrize(
    ("what", "order"),
    [
        (
            seen("LearningRateZero"),
            [RATE, SCHEDULE, WIDTH, PRINTING, DATA, TORCH, VARIABLE, GPUS, OTHER, HOST, COMMIT],
        ),
        (
            seen("ConstantLabels"),
            [DATA, WIDTH, RATE, PRINTING, SCHEDULE, TORCH, VARIABLE, GPUS, OTHER, HOST, COMMIT],
        ),
    ],
)
def test_what_concerns_the_cause_comes_first(what: Seen, order: list[Suspect]):
    assert ranked(ALL, what) == order


def test_a_change_at_the_line_of_the_failure_comes_before_everything():
    what = seen("KeyError", line="train.py:88")
    assert ranked([RATE, PRINTING, SCHEDULE], what)[0] == PRINTING


def test_a_change_of_the_sick_layer_comes_before_other_code():
    what = seen("DeadLayer", place="layers.*.mlp.up")
    assert ranked([PRINTING, LAYER], what) == [LAYER, PRINTING]


def test_the_machine_is_suspected_first_of_what_concerns_it():
    assert ranked([RATE, PRINTING, GPUS], seen("CPUBottleneck"))[0] == GPUS


def test_there_are_not_too_many():
    assert len(ranked([changed("package", f"p{n}") for n in range(500)], seen("X"))) == 50


def test_changed_code_is_named_by_the_first_changed_line():
    before = code(train_py="a\nb\nc\nlr = 1\nd\n", gone_py="x\n", data_bin=b"\0\1")
    after = code(train_py="new\na\nb\nc\nlr = 0\nd\n", new_py="y\n", data_bin=b"\0\2")
    found = [*of_code(diff_of(before, after))]
    assert found == [
        Suspect("code", "data.bin", "", "changed file"),
        Suspect("code", "gone.py", "", "removed file"),
        Suspect("code", "new.py", "", "new file"),
        Suspect("code", "train.py:1", "lr = 1", "new\nlr = 0"),
    ]


def made(values: dict[Key, str], **channels: ChannelData) -> Made:
    return Made(
        values | {("data", name): each.location for name, each in channels.items()}, channels
    )


def test_only_what_differs_is_named_and_secrets_are_not_shown():
    before = made({("hyperparameter", "lr"): "1", ("environment", "HF_TOKEN"): "first"})
    after = made({("hyperparameter", "lr"): "1", ("environment", "HF_TOKEN"): "second"})
    assert [*differences(before, after)] == [(("environment", "HF_TOKEN"), "***", "*** (another)")]


def test_what_one_of_two_jobs_did_not_record_is_not_compared():
    before = made({("package", "torch"): "2", ("host", "cores"): "8", ("git", "commit"): "abc"})
    assert [*differences(before, made({}))] == []
    assert [*differences(made({}), before)] == []
    after = made({("package", "numpy"): "1"})
    assert [*differences(before, after)] == [
        (("package", "torch"), "2", ""),
        (("package", "numpy"), "", "1"),
    ]


def test_data_is_compared_by_its_files_wherever_they_are():
    files = [("a.csv", 3, "v1"), ("b.csv", 4, "v1")]
    before = made({}, training=channel("training", "/old", files))
    moved = made({}, training=channel("training", "/new", files))
    assert [*differences(before, moved)] == []
    other = [("a.csv", 3, "v2"), ("c.csv", 5, "v1")]
    after = made({}, training=channel("training", "/new", other))
    [(key, old, new)] = differences(before, after)
    assert (key, old) == (("data", "training"), "2 files, 7 B")
    assert new == "2 files, 8 B; added: c.csv; removed: b.csv; changed: a.csv"


def test_of_data_that_was_not_recorded_the_location_is_compared():
    old, new = Made({("data", "x"): "s3://a"}, {}), Made({("data", "x"): "s3://b"}, {})
    assert [*differences(old, new)] == [(("data", "x"), "s3://a", "s3://b")]
    copies = [Made({("data", "x"): f"s3://a/{name}/input/x"}, {}) for name in ("job-1", "job-2")]
    assert [*differences(*copies)] == []


TRAIN = """\
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.05)
arguments = parser.parse_args()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr)
inputs = torch.randn(64, 4)
labels = (inputs[:, 0] > 0).long()
for step in range(120):
    batch = torch.randperm(64)[:32]
    loss = torch.nn.functional.cross_entropy(model(inputs[batch]), labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    work, packages = tmp_path / "work", tmp_path / "packages"
    (packages / "fakelib-1.0.dist-info").mkdir(parents=True)
    work.mkdir()
    monkeypatch.chdir(work)
    paths = [str(packages), *(path for path in sys.path if path)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    (work / "train.py").write_text(TRAIN)
    settings = Settings.load()
    yield Jobs(settings, environment())
    end_processes_of(settings.home)


def train(name: str, **hyperparameters: float) -> None:
    estimator = Estimator(
        entry_point="train.py", rules=[built_in("Checkup")], hyperparameters=hyperparameters
    )
    estimator.fit(logs="Rules", job_name=name)


def of_cause(jobs: Jobs, cause: str) -> Issue:
    [issue] = [each for each in Issues(jobs).list() if each.cause == cause]
    return issue


def test_a_training_that_was_broken_names_what_broke_it(jobs: Jobs, tmp_path: Path):
    """By a hyperparameter, by a line of code, and by a package."""
    train("good", lr=0.05)
    assert Issues(jobs).list() == []
    train("bad-rate", lr=0.0)

    by_rate = of_cause(jobs, "LearningRateZero")

    assert (by_rate.healthy, by_rate.sick) == ("good", "bad-rate")
    assert [(each.kind, each.name) for each in by_rate.suspects] == [("hyperparameter", "lr")]
    assert (by_rate.suspects[0].before, by_rate.suspects[0].after) == ("0.05", "0.0")
    Path("train.py").write_text(TRAIN.replace("> 0)", "> 99)"))
    packages = tmp_path / "packages"
    shutil.move(packages / "fakelib-1.0.dist-info", packages / "fakelib-2.0.dist-info")
    train("bad-code", lr=0.05)

    by_code = of_cause(jobs, "ConstantLabels")

    assert (by_code.healthy, by_code.sick) == ("good", "bad-code")
    found = {(each.kind, each.name): each for each in by_code.suspects}
    assert found.keys() == {("code", "train.py:10"), ("package", "fakelib")}
    assert found["code", "train.py:10"].after == "labels = (inputs[:, 0] > 99).long()"
    assert found["package", "fakelib"].after == "2.0"
    assert by_code.suspects[0].kind == "code"
    assert by_code.suspects[-1].kind == "package"
