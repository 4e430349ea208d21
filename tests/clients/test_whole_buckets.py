"""`tensorboard --logdir s3://bucket`, as in tutorials: a real TensorBoard, server and shell."""

import ast
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType

import pytest

from tests.client_shell import ClientShell, client_shell
from tests.curves.test_tensorboard import TensorBoard, started
from tests.wait import until
from trackside.clients import whole_buckets
from trackside.curves.event_file import EventFile
from trackside.records.layout import Home

BESIDE = Path(sys.executable).parent
"""Where `tensorboard` is."""
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def buckets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientShell]:
    """Of an embedded store: one with runs of two jobs, one with event files at its very top."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACKSIDE_HOME", str(home))
        folders = ("curves/tb/one/tensorboard-output", "curves/tb/two/eval", "top")
        for number, folder in enumerate(folders):
            file = EventFile(Home(home).buckets / folder)
            for step in range(5):
                file.add(("loss", step / 2, number * 10 + step, 1.7e9 + step))
            file.close()
        with client_shell(home) as shell:
            yield shell


def shown(page: TensorBoard) -> dict[str, int]:
    """Each run, and its first step."""
    return {run: page.steps(run, "loss")[0] for run in page.runs() if page.steps(run, "loss")}


def typed(shell: ClientShell, line: str) -> AbstractContextManager[TensorBoard]:
    """A command as it is typed in that shell."""
    path = os.pathsep.join([str(BESIDE), shell.environment["PATH"]])
    return started(
        ["bash", "-c", f'exec env {line} "$@"', "bash"], {**shell.environment, "PATH": path}
    )


RUNS = {"tb/one/tensorboard-output": 0, "tb/two/eval": 10}


@pytest.mark.parametrize(
    ("logdir", "runs"),
    [
        ("s3://curves", RUNS),
        pytest.param("s3://curves/", RUNS, marks=pytest.mark.nightly),
        pytest.param("s3://top", {".": 20}, marks=pytest.mark.nightly),
        ("s3://top/", {".": 20}),
    ],
)
def test_after_trackside_env_the_command_of_tutorials_shows_all_runs(
    buckets: ClientShell, logdir: str, runs: dict[str, int]
):
    command = f"F_CPP_MIN_LOG_LEVEL=3 AWS_REGION=us-west-2 tensorboard --logdir {logdir}"
    with typed(buckets, command) as page:
        until(lambda: shown(page) == runs, seconds=120)


def test_with_the_endpoint_alone_a_slash_is_needed(buckets: ClientShell):
    """Without it TensorBoard asks nobody anything, so that no server can help."""
    bare = buckets.without("PYTHONPATH", "_TRACKSIDE")
    assert "AWS_ENDPOINT_URL" in bare.environment
    with typed(bare, "tensorboard --logdir s3://curves/") as page:
        until(lambda: shown(page) == RUNS, seconds=120)


def test_it_runs_under_old_interpreters_and_leaves_other_forms_alone():
    ast.parse(Path(whole_buckets.__file__).read_text(), feature_version=(3, 7))
    whole_buckets.register(ModuleType("gfile"))
