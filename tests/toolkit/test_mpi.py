"""MPI jobs, with the real mpirun."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.toolkit.conftest import Host, children_of, needs, wait_until

RANK = """
import os, signal, sys, time
rank = os.environ["OMPI_COMM_WORLD_RANK"]
print("rank", rank, "of", os.environ["OMPI_COMM_WORLD_SIZE"], *sys.argv[1:])
folder = os.environ["SM_MODEL_DIR"]
if "--wait" in sys.argv:
    def save(number, frame):
        time.sleep(2)  # longer than mpirun itself would allow
        open(f"{folder}/saved-{rank}", "w").close()
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
    open(f"{folder}/ready-{rank}", "w").close()
    time.sleep(60)
if "--fail" in sys.argv and rank == "1":
    raise ValueError("rank one is unwell")
"""


@pytest.fixture(autouse=True)
def _mpirun():
    needs("mpirun", "mpi")


def configure(host: Host, name: str = "algo-1", hosts: tuple[str, ...] = ("algo-1",), **more: str):
    host.hyperparameters(
        sagemaker_mpi_enabled="true", sagemaker_mpi_num_of_processes_per_host="2", **more
    )
    host.configure("resourceconfig", {"current_host": name, "hosts": list(hosts)})
    host.script(RANK)


def test_ranks_start_on_one_host_and_write_whole_lines(host: Host):
    configure(host, lr="0.1")
    finished = host.train()
    assert finished.code == 0, finished.log
    assert sorted(finished.stdout.decode().split("\n")[:-1]) == [
        "[1,0]<stdout>:rank 0 of 2 --lr 0.1",
        "[1,1]<stdout>:rank 1 of 2 --lr 0.1",
    ]


def test_a_failing_rank_fails_the_job_with_its_words(host: Host):
    configure(host, fail="1")
    assert host.train().code == 1
    assert host.failure.startswith(
        'ExecuteUserScriptError:\nExitCode 1\nErrorMessage "ValueError: rank one is unwell\n'
    )


def test_a_stop_signal_gives_every_rank_its_time_to_save(host: Host):
    configure(host, wait="1")
    process = host.start(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    model = host.base / "model"
    wait_until(lambda: len(list(model.glob("ready-*"))) == 2)
    process.terminate()
    assert process.wait(timeout=30) == 0
    assert len(list(model.glob("saved-*"))) == 2


def test_custom_options_reach_mpirun_and_nccl(host: Host):
    options = "--NCCL_DEBUG INFO -x MINE=7"
    configure(host, sagemaker_mpi_custom_mpi_options=f'"{options}"')
    host.script("import os; print(os.environ['NCCL_DEBUG'], os.environ['MINE'])")
    output = host.train().stdout.decode()
    assert output.count("INFO 7") == 2


def test_a_command_is_started_once_per_rank(host: Host):
    configure(host)
    host.script("#!/bin/sh\necho rank $OMPI_COMM_WORLD_RANK\n", "train.sh")
    output = host.train(SAGEMAKER_PROGRAM="train.sh").stdout
    assert sorted(output.splitlines()) == [b"[1,0]<stdout>:rank 0", b"[1,1]<stdout>:rank 1"]


@pytest.fixture
def pair(host: Host, tmp_path: Path) -> list[Host]:
    """Two hosts that are processes of this machine, as the process sandbox makes them."""
    pair = [host, Host(tmp_path / "second")]
    for each in pair:
        each.variables.update(
            TRACKSIDE_HOSTS_SHARED_MACHINE="1",
            SM_STUDIO_LOCAL_MODE="true",
            TRAINING_JOB_NAME=f"job-{os.getpid()}-{tmp_path.name}",
        )
    return pair


def start_pair(pair: list[Host], **more: str) -> list["subprocess.Popen[bytes]"]:
    names = ("algo-1", "algo-2")
    processes = []
    # The second host first: it has to wait for the master to appear.
    for name, each in reversed(list(zip(names, pair, strict=True))):
        configure(each, name, names, **more)
        log = (each.base / "log").open("wb")
        processes.append(each.start(stdout=log, stderr=log))
        log.close()
    return processes[::-1]


def test_hosts_of_one_machine_need_no_ssh(pair: list[Host]):
    processes = start_pair(pair)
    assert [process.wait(timeout=40) for process in processes] == [0, 0]
    assert (pair[0].base / "log").read_text().count("<stdout>:rank") == 4
    assert (pair[1].output / "success").exists()


def test_every_host_of_one_machine_knows_the_failure(pair: list[Host]):
    processes = start_pair(pair, fail="1")
    assert [process.wait(timeout=40) for process in processes] == [1, 1]
    assert pair[1].failure.startswith("ExecuteUserScriptError:\nExitCode 1\n")
    assert "algo-1" in pair[1].failure


def test_a_stop_of_all_hosts_of_one_machine_waits_for_the_ranks(pair: list[Host]):
    processes = start_pair(pair, wait="1")
    model = pair[0].base / "model"
    wait_until(lambda: len(list(model.glob("ready-*"))) == 4)
    for process in reversed(processes):
        process.terminate()
    assert [process.wait(timeout=40) for process in processes] == [0, 0]
    assert len(list(model.glob("saved-*"))) == 4


def test_a_master_that_dies_is_not_waited_for(pair: list[Host]):
    processes = start_pair(pair, wait="1")
    wait_until(lambda: len(list((pair[0].base / "model").glob("ready-*"))) == 4)
    mpirun = children_of(processes[0].pid)
    processes[0].kill()
    assert processes[1].wait(timeout=30) == 1
    assert "algo-1 ended without reporting" in pair[1].failure
    for pid in mpirun:
        os.killpg(pid, signal.SIGKILL)
