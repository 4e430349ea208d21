"""What the script itself sees of its channels, in real sandboxes."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.supervisor.making import channel
from tests.wait import until
from trackside.storage.folder import FolderStore
from trackside.supervisor.channel_objects import Assignment
from trackside.supervisor.channels import provide
from trackside.supervisor.process_sandbox import ProcessSandbox, available
from trackside.supervisor.sandbox import Exited, Running, SandboxPlan

SCRIPT = """
cd "${SAGEMAKER_BASE_DIR:-/opt/ml}/input/data"
cat train/a.csv single/a.csv copied/a.csv fast/a.csv piped_0 piped_1
for channel in train copied fast; do
    touch $channel/new 2>/dev/null && echo "$channel may be written" || echo "$channel may not"
done
"""


@pytest.fixture(params=["namespaces", "none"])
def sandbox(request: pytest.FixtureRequest) -> ProcessSandbox:
    if request.param == "none":
        return ProcessSandbox("none")
    if available().kind == "none":
        pytest.skip(f"needs namespaces. {available().reason}")
    return ProcessSandbox()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_script_reads_all_modes_and_writes_only_where_it_may(
    sandbox: ProcessSandbox, stack: ExitStack, tmp_path: Path
) -> None:
    home, ml, own = tmp_path / "home", tmp_path / "ml", tmp_path / "own"
    own.mkdir()
    (own / "a.csv").write_text("own\n")
    stored = FolderStore(home / "buckets" / "bucket")
    stored.put("data/a.csv", b"stored\n")
    can_mount = sandbox.isolation.kind != "none"
    mounts: dict[str, Path] = {}
    read_only: frozenset[str] = frozenset()
    for wanted, mode in (
        (channel(str(own)), "File"),
        (channel(f"{own}/a.csv", "single"), "File"),
        (channel("s3://bucket/data/", "copied"), "File"),
        (channel("s3://bucket/data/", "fast"), "FastFile"),
        (channel("s3://bucket/data/", "piped"), "Pipe"),
    ):
        provided = provide(
            wanted, Assignment(mode), ml / "input" / "data", home=home, can_mount=can_mount
        )
        mounts |= provided.mounts
        read_only |= provided.read_only
        if provided.feeder is not None:
            stack.enter_context(provided.feeder)
    plan = SandboxPlan(
        folder=tmp_path / "sandbox",
        ml=ml,
        mounts=mounts,
        read_only=read_only,
        command=["/bin/sh", "-c", SCRIPT],
        environment={"PATH": os.defpath},
        log=tmp_path / "log",
        nonce=f"channels-{os.getpid()}-{time.monotonic_ns()}",
    )
    stack.callback(sandbox.signal, plan, signal.SIGKILL)
    sandbox.start(plan)
    end = until(lambda: None if (seen := sandbox.poll(plan)) == Running() else seen)
    assert end == Exited(0)
    fast = "fast may not" if can_mount else "fast may be written"
    assert plan.log.read_text().splitlines() == [
        *["own"] * 2,
        *["stored"] * 4,
        "train may be written",
        "copied may be written",
        fast,
    ]
    assert (own / "new").exists()
    assert [entry.key for entry in stored.list()] == ["data/a.csv"]
