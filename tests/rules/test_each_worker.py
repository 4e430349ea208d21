"""Several workers: each is judged, and the finding says which."""

from pathlib import Path

import pytest

from tests.capture.test_torch_distributed import run_twice
from tests.rules.recording import Recording, judge
from trackside.capture.trial import Trial, create_trial
from trackside.rules.builtin import TensorRule
from trackside.rules.checkup.checkup import Checkup
from trackside.rules.each_worker import EachWorker, for_each_worker
from trackside.rules.tensor.any_tensors import AllZero, ExplodingTensor
from trackside.rules.tensor.comparisons import SimilarAcrossRuns

NAN = float("nan")


def recorded(folder: Path, *workers: list[float]) -> Trial:
    """What each of the workers saved of one tensor, step by step."""
    for rank, values in enumerate(workers):
        recording = Recording(folder, worker=f"worker_{rank}", num_workers=len(workers))
        for step, value in enumerate(values):
            recording.step(step, {"w": [value]})
        recording.close(end_marker=rank == len(workers) - 1)
    return create_trial(str(folder))


def found(rule: TensorRule, trial: Trial) -> list[tuple[str, int | None, str]]:
    return [(each.worker, each.step, each.message) for each in judge(EachWorker(rule), trial)]


def test_a_worker_that_breaks_alone_is_named(tmp_path):
    trial = recorded(tmp_path, [1.0, 1.0], [1.0, NAN], [1.0, 1.0])
    [(worker, step, message)] = found(ExplodingTensor(), trial)
    assert (worker, step) == ("worker_1", 1)
    assert message.endswith("healthy.")


def test_what_is_so_at_all_of_them_is_reported_once(tmp_path):
    [(worker, step, message)] = found(
        AllZero(tensor_regex=("w",)), recorded(tmp_path, [0, 0], [0, 0])
    )
    assert (worker, step) == ("", 0)
    assert message.endswith("So at all 2 workers.")


def test_what_is_so_at_some_is_reported_once_with_their_names(tmp_path):
    trial = recorded(tmp_path, [1.0], [NAN], [NAN])
    [(worker, _, message)] = found(ExplodingTensor(), trial)
    assert worker == "worker_1"
    assert message.endswith("So at worker_1, worker_2.")


def test_what_one_has_and_another_gets_later_is_reported_the_first(tmp_path):
    trial = recorded(tmp_path, [1.0, 1.0, NAN], [1.0, NAN, NAN])
    reported = found(ExplodingTensor(), trial)
    assert [(worker, step) for worker, step, _ in reported] == [("worker_1", 1)]


def test_one_worker_alone_has_no_name(tmp_path):
    assert [each[:2] for each in found(ExplodingTensor(), recorded(tmp_path, [NAN]))] == [("", 0)]


def test_a_rule_that_compares_trials_reads_the_first_worker():
    rule = SimilarAcrossRuns(other_trials=("x",), tensor_regex=("w",))
    assert for_each_worker(rule) is rule


SCRIPT = """
import sys, torch, torch.distributed as dist
from torch import nn
from trackside.capture.hook import Hook
from trackside.capture.selection.save_config import SaveConfig

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
torch.set_num_threads(1)
model = nn.parallel.DistributedDataParallel(
    nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
)
hook = Hook(sys.argv[1], save_config=SaveConfig(save_interval=1), include_workers="all",
            include_collections=["losses"])
hook.register_module(model)
criterion = nn.CrossEntropyLoss()
hook.register_loss(criterion)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
wanted = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
for _ in range(40):
    x = torch.randn(16, 8)
    y = (x @ wanted).argmax(1)
    if dist.get_rank() == 1:
        x = torch.zeros(16, 8)  # its share of the data is not there
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
hook.close()
dist.destroy_process_group()
"""


@pytest.mark.timeout(400)
@pytest.mark.xdist_group("gloo")
def test_of_two_real_processes_the_one_whose_data_is_broken_is_named(tmp_path):
    run_twice(SCRIPT, str(tmp_path))
    reported = judge(EachWorker(Checkup()), create_trial(str(tmp_path)))
    assert [(each.rule, each.worker) for each in reported] == [("ConstantInput", "worker_1")]
