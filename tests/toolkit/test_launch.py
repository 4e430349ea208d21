"""torchrun, with the real torch: one host, and two hosts that are processes of this machine."""

import os
import socket
import subprocess
from itertools import count
from pathlib import Path

import pytest

from tests.toolkit.conftest import Host
from trackside.errors import ToolkitError
from trackside.toolkit.entry_point import EntryPoint, Kind
from trackside.toolkit.environment import Job, read_job, read_settings
from trackside.toolkit.launch import Launcher, choose, torchrun_command

ADDS_UP_RANKS = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
text = f"{dist.get_rank()} of {dist.get_world_size()}: {total.item()} {sys.argv[1:]}\\n"
os.write(1, text.encode())
if os.environ.get("SM_HP_FAIL") == str(dist.get_rank()):
    raise ValueError("the unlucky rank")
dist.destroy_process_group()
"""


def free_port() -> str:
    """Below those that the kernel gives to whoever wants any: so nobody takes it meanwhile."""
    return next(str(port) for port in count(10_000 + os.getpid() % 20_000) if is_free(port))


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def job(host: Host, monkeypatch: pytest.MonkeyPatch, **variables: str) -> Job:
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (host.variables | variables).items():
        monkeypatch.setenv(name, value)
    return read_job(read_settings())


@pytest.mark.parametrize(
    ("enabled", "launcher"),
    [
        ([], Launcher.PLAIN),
        (["sagemaker_mpi_enabled", "sagemaker_torch_distributed_enabled"], Launcher.MPI),
        (["sagemaker_torch_distributed_enabled"], Launcher.TORCHRUN),
        (["sagemaker_pytorch_ddp_enabled"], Launcher.TORCHRUN),
        (["sagemaker_parameter_server_enabled"], Launcher.PLAIN),
    ],
)
def test_the_launcher_follows_the_parameters(
    host: Host, monkeypatch: pytest.MonkeyPatch, enabled: list[str], launcher: Launcher
):
    host.hyperparameters(**dict.fromkeys(enabled, "true"))
    assert choose(job(host, monkeypatch).environment) is launcher


def test_a_group_outside_the_distribution_is_started_plainly(
    host: Host, monkeypatch: pytest.MonkeyPatch
):
    host.hyperparameters(
        sagemaker_torch_distributed_enabled="true",
        sagemaker_distribution_instance_groups='["others"]',
    )
    assert choose(job(host, monkeypatch).environment) is Launcher.PLAIN


@pytest.mark.parametrize(
    "name",
    ["sagemaker_distributed_dataparallel_enabled", "sagemaker_pytorch_xla_multi_worker_enabled"],
)
def test_what_exists_on_aws_only_is_refused_with_a_way_out(host: Host, name: str):
    host.hyperparameters(**{name: "true"})
    host.script("raise SystemExit('must not run')")
    assert host.train().code == 1
    assert host.failure.startswith(name)
    assert "sagemaker_torch_distributed_enabled" in host.failure


def test_the_torchrun_command_of_the_second_host(host: Host, monkeypatch: pytest.MonkeyPatch):
    host.hyperparameters(
        lr="0.1",
        sagemaker_torch_distributed_enabled="true",
        sagemaker_mpi_num_of_processes_per_host="4",
    )
    host.configure("resourceconfig", {"current_host": "algo-2", "hosts": ["algo-1", "algo-2"]})
    entry_point = EntryPoint("train.py", Kind.PROGRAM)
    expected = [
        *("python", "-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "4"),
        *("--master_addr", "algo-1", "--master_port", "7777", "--node_rank", "1"),
        *("train.py", "--lr", "0.1"),
    ]
    plain = job(host, monkeypatch)
    assert torchrun_command(plain, entry_point, "python", plain.arguments) == expected
    moved = job(host, monkeypatch, MASTER_ADDR="10.0.0.1", MASTER_PORT="9999")
    command = torchrun_command(moved, entry_point, "python", moved.arguments)
    assert command[7:11] == ["--master_addr", "10.0.0.1", "--master_port", "9999"]


def test_torchrun_starts_modules_and_no_commands(host: Host, monkeypatch: pytest.MonkeyPatch):
    one = job(host, monkeypatch)
    package = torchrun_command(one, EntryPoint("pkg/train.py", Kind.PACKAGE), "python", [])
    assert package[-2:] == ["-m", "pkg.train"]
    with pytest.raises(ToolkitError, match=r"'train\.sh'"):
        torchrun_command(one, EntryPoint("train.sh", Kind.COMMAND), "python", [])


@pytest.mark.timeout(600)
def test_ranks_of_one_host_find_each_other(host: Host):
    host.hyperparameters(
        lr="0.1",
        sagemaker_torch_distributed_enabled="true",
        sagemaker_mpi_num_of_processes_per_host="2",
    )
    host.script(ADDS_UP_RANKS)
    process = host.start(stdout=subprocess.PIPE, stderr=subprocess.PIPE, MASTER_PORT=free_port())
    output, log = process.communicate()
    assert sorted(output.decode().splitlines()) == [
        "0 of 2: 3 ['--lr', '0.1']",
        "1 of 2: 3 ['--lr', '0.1']",
    ], log.decode()


@pytest.mark.timeout(600)
def test_a_rank_that_is_killed_is_named(host: Host):
    host.hyperparameters(
        sagemaker_torch_distributed_enabled="true", sagemaker_mpi_num_of_processes_per_host="2"
    )
    host.script(
        "import os, signal, time\n"
        "if os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGKILL)\n"
        "time.sleep(600)\n"
    )
    assert host.train(MASTER_PORT=free_port()).code == 1
    assert 'ExitCode 1\nErrorMessage "Rank 1 was killed by SIGKILL after ' in host.failure


@pytest.mark.timeout(600)
def test_two_hosts_make_one_group_and_the_failing_ranks_output_is_kept(host: Host, tmp_path: Path):
    second = Host(tmp_path / "second")
    hosts = {"algo-1": host, "algo-2": second}
    port = free_port()
    processes = []
    for name, each in hosts.items():
        each.variables.update(
            MASTER_ADDR="127.0.0.1", MASTER_PORT=port, SM_STUDIO_LOCAL_MODE="true"
        )
        each.hyperparameters(sagemaker_torch_distributed_enabled="true", fail="1")
        each.configure("resourceconfig", {"current_host": name, "hosts": list(hosts)})
        each.script(ADDS_UP_RANKS)
        with (each.base / "log").open("wb") as log:
            processes.append(each.start(stdout=log, stderr=log))
    # Only the failing one: torchrun lets the others wait five minutes for it to come back.
    assert processes[1].wait() == 1
    assert "1 of 2: 3" in (second.base / "log").read_text()
    assert second.failure.startswith(
        "ExecuteUserScriptError:\nExitCode 1\n"
        'ErrorMessage "ValueError: the unlucky rank, at train.py:'
    )
