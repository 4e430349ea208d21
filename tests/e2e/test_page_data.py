"""What the page shows of a whole job of two hosts: heat maps, ranks, machine and logs."""

from typing import Any

import numpy as np

from tests.e2e.test_hosts import DDP, TWO, check_ddp
from trackside.views.curves.binary_frame import decode
from trackside.views.curves.series import CurveReader
from trackside.views.job.machine import MachineView, time_of_step
from trackside.views.job.ranks import Ranks
from trackside.views.logs.log_pages import LogPages
from trackside.views.logs.log_search import Hit, LogSearch
from trackside.views.logs.open_logs import OpenLogs
from trackside.views.tensors.heat_map import HeatMaps, HeatRequest
from trackside.views.tensors.open_trials import OpenTrials

HOOK = {
    "S3OutputPath": "s3://bucket/debug",
    "HookParameters": {"save_interval": "10"},
    "CollectionConfigurations": [
        {"CollectionName": "gradients", "CollectionParameters": {"reductions": "l2"}},
        {"CollectionName": "losses", "CollectionParameters": {"save_interval": "1"}},
    ],
}
LOUD = 'print(f"step {step} loss {loss.item()}", flush=True)\n    first = first or'


def test_a_distributed_job(machine):
    job = machine.submit(
        DDP.replace("first = first or", LOUD),
        ResourceConfig=TWO,
        DebugHookConfig=HOOK,
        hyperparameters={"sagemaker_torch_distributed_enabled": "true"},
    )
    check_ddp(job)
    jobs, home = machine.jobs, machine.settings.layout
    record, trials = jobs.record(job.name), OpenTrials(home)
    [heat] = decode(HeatMaps(trials).heat(record, HeatRequest("gradients")))
    assert heat["names"] == ["gradient/Linear_weight", "gradient/Linear_bias"]
    assert heat["arrays"]["steps"].tolist() == [0, 10, 20, 30, 40, 50]
    ranks = {item["quantity"]: item for item in decode(Ranks(trials, home).frame(record))}
    check_ranks(ranks)
    reader = CurveReader(jobs)
    charts = [chart["title"] for chart in MachineView(jobs, reader).view(job.name)["charts"]]
    assert charts[:2] == ["Loss", "Step time"]
    check_logs(record, LogPages(OpenLogs(home)), LogSearch(OpenLogs(home)), reader)


def check_ranks(ranks: dict[str, Any]) -> None:
    """Of both hosts, although only the first saves tensors."""
    assert ranks["step"]["ranks"] == ["worker_0", "worker_1"]
    assert ranks["step"]["arrays"]["steps"].tolist() == list(range(59))
    assert (ranks["step"]["arrays"]["cells"] > 0).all()
    waits = ranks["wait"]["arrays"]["cells"].reshape(2, -1)
    assert np.isfinite(waits).sum(axis=1).min() >= 5
    assert ranks["loss"]["ranks"] == ["worker_0", "worker_1"]


def check_logs(record: Any, pages: LogPages, search: LogSearch, reader: CurveReader) -> None:
    for host in record.spec.hosts:
        [hit, end] = search.search(record, r"^step 30 loss \d", host=host)
        assert isinstance(hit, Hit)
        page = pages.page(record, host=host, at=f"line:{hit.line}", count=2)
        assert [line.text.split()[:2] for line in page.lines] == [["step", "30"], ["step", "31"]]

    def when(step: int) -> float | None:
        return time_of_step(reader, record.spec.name, step)

    moment = when(30)
    assert moment is not None
    page = pages.page(record, at="step:30", time_of_step=when)
    assert page.target is not None
    shown = page.target - page.first
    assert page.lines[shown].time >= moment - 0.001 or page.target == page.total
    assert all(line.time < moment for line in page.lines[:shown])
