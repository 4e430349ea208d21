"""MPI jobs, with the real mpirun."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.toolkit.conftest import TRAIN, Host, children_of, needs, needs_root
from tests.wait import until

RANK = """
import os, signal, sys, time
rank = os.environ["OMPI_COMM_WORLD_RANK"]
print("rank", rank, "of", os.environ["OMPI_COMM_WORLD_SIZE"], *sys.argv[1:])
folder = os.environ["SM_MODEL_DIR"]
open(f"{folder}/ran-{rank}", "w").close()
if "--wait" in sys.argv:
    def save(number, frame):
        time.sleep(2)  # longer than mpirun itself would allow
        open(f"{folder}/saved-{rank}", "w").close()
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
    open(f"{folder}/ready-{rank}", "w").close()
    time.sleep(600)
if "--fail" in sys.argv and rank == "1":
    raise ValueError("rank one is unwell")
"""

WAITS = "waiting for its outcome"  # a stop is left to the master from here on


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


def test_a_program_at_the_port_of_an_x_display_delays_nothing(host: Host):
    """As TensorBoard is, at 6006. mpirun's hwloc would ask it for GPUs, and wait for ever."""
    configure(host, lr="0.1")
    with socket.socket() as silent:
        for port in range(6009, 5999, -1):
            with suppress(OSError):
                silent.bind(("127.0.0.1", port))
                break
        silent.listen()
        assert host.train().code == 0


def test_a_failing_rank_fails_the_job_with_its_output(host: Host):
    configure(host, fail="1")
    assert host.train().code == 1
    assert host.failure.startswith(
        "ExecuteUserScriptError:\nExitCode 1\n"
        'ErrorMessage "ValueError: rank one is unwell, at train.py:'
    )


def test_a_stop_signal_gives_every_rank_its_time_to_save(host: Host):
    configure(host, wait="1")
    process = host.start(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    model = host.base / "model"
    until(lambda: len(list(model.glob("ready-*"))) == 2)
    process.terminate()
    assert process.wait() == 0
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
    # The second host first: it has to wait for the master to appear.
    return [start_one(pair, number, **more) for number in (1, 0)][::-1]


def start_one(pair: list[Host], number: int, **more: str) -> "subprocess.Popen[bytes]":
    names = ("algo-1", "algo-2")
    host = pair[number]
    configure(host, names[number], names, **more)
    with (host.base / "log").open("wb") as log:
        return host.start(stdout=log, stderr=log)


def ranks_that_ran(master: Host) -> int:
    """By their files: an mpirun that stands still may lose a line. All write to the master's."""
    return len(list((master.base / "model").glob("ran-*")))


def test_hosts_of_one_machine_need_no_ssh(pair: list[Host]):
    processes = start_pair(pair)
    assert [process.wait() for process in processes] == [0, 0]
    assert ranks_that_ran(pair[0]) == 4
    assert (pair[1].output / "success").exists()


def test_every_host_of_one_machine_knows_the_failure(pair: list[Host]):
    processes = start_pair(pair, fail="1")
    assert [process.wait() for process in processes] == [1, 1]
    assert pair[1].failure.startswith("ExecuteUserScriptError:\nExitCode 1\n")
    assert "algo-1" in pair[1].failure


def test_a_stop_of_all_hosts_of_one_machine_waits_for_the_ranks(pair: list[Host]):
    processes = start_pair(pair, wait="1")
    model = pair[0].base / "model"
    until(lambda: len(list(model.glob("ready-*"))) == 4)
    until(lambda: WAITS in (pair[1].base / "log").read_text())
    for process in reversed(processes):
        process.terminate()
    assert [process.wait() for process in processes] == [0, 0]
    assert len(list(model.glob("saved-*"))) == 4


def test_a_master_that_dies_is_not_waited_for(pair: list[Host]):
    processes = start_pair(pair, wait="1")
    until(lambda: len(list((pair[0].base / "model").glob("ready-*"))) == 4)
    until(lambda: num_sockets(pair) == 2)
    below = psutil.Process(processes[0].pid).children(recursive=True)  # mpirun, and its ranks
    processes[0].kill()
    try:
        assert processes[1].wait() == 1
        assert "algo-1 ended without reporting" in pair[1].failure
    finally:
        for each in below:
            with suppress(psutil.NoSuchProcess):
                each.kill()


STRANGER = """
import os, socket, sys
os.setuid(65534)
asking = socket.socket(socket.AF_UNIX)
asking.connect("\\0" + sys.argv[1])
print("connected", flush=True)
print(asking.recv(4))
"""


def test_another_user_of_the_machine_is_not_notified_instead_of_a_host(pair: list[Host]):
    needs_root()
    master = start_one(pair, 0, wait="1")
    [name] = until(lambda: sockets(pair))
    stranger = subprocess.Popen([sys.executable, "-c", STRANGER, name], stdout=subprocess.PIPE)
    with stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == b"connected\n"
        other = start_one(pair, 1, wait="1")
        until(lambda: num_sockets(pair) == 3)
        until(lambda: len(list((pair[0].base / "model").glob("ready-*"))) == 4)
        for process in (other, master):
            process.terminate()
        assert [other.wait(), master.wait()] == [0, 0]
        assert stranger.stdout.read() == b"b''\n"


def num_sockets(pair: list[Host]) -> int:
    """The master's, and one more when the other host is connected to it."""
    return len(sockets(pair))


def sockets(pair: list[Host]) -> list[str]:
    start = f"@trackside-mpi-{pair[0].variables['TRAINING_JOB_NAME']}"[:100]
    lines = Path("/proc/net/unix").read_text().splitlines()
    return [line.split()[-1][1:] for line in lines if start in line]


class Machine(NamedTuple):
    host: Host
    space: str
    shared: Path

    def start(
        self, name: str, *, before: str = "true", after: str = "", **more: str
    ) -> "subprocess.Popen[bytes]":
        configure(self.host, name, ("algo-1", "algo-2"), **more)
        train = " ".join(TRAIN)
        scratch = self.shared / "scratch"
        enter = [
            f"hostname {name}",
            f"mount --bind {self.shared}/hosts /etc/hosts",
            f"mkdir -p ~root/.ssh && mount --bind {self.shared}/ssh ~root/.ssh",
            f"mount -t tmpfs tmpfs {scratch}",
            "mount -t tmpfs tmpfs /run",
            f"{{ {before}\n}}",
            f"{{ {train}; code=$?; {after}; exit $code; }}" if after else f"exec {train}",
        ]
        inside = ("unshare", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
        with (self.host.base / "log").open("wb") as log:
            return self.host.start(
                ("ip", "netns", "exec", self.space, *inside, "sh", "-c", " && ".join(enter)),
                stdout=log,
                stderr=log,
                TMPDIR=str(scratch),
                TRACKSIDE_HOST_WAIT_SECONDS="150",
            )

    @property
    def log(self) -> str:
        return (self.host.base / "log").read_text()


@pytest.fixture
def machines(host: Host, tmp_path: Path) -> Iterator[list[Machine]]:
    """Two hosts with a network, a host name, a /tmp of their own, and a common ssh key."""
    for program in ("ip", "unshare", "ssh-keygen", "/usr/sbin/sshd"):
        needs(program, "mpi")
    needs_root()
    keys = tmp_path / "ssh"
    keys.mkdir(mode=0o700)
    key = keys / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (keys / "authorized_keys").write_text(key.with_suffix(".pub").read_text())
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n10.99.0.1 algo-1\n10.99.0.2 algo-2\n")
    (tmp_path / "scratch").mkdir()
    spaces = [f"trackside-{os.getpid()}-{number}" for number in (1, 2)]
    for space in spaces:
        subprocess.run(["ip", "netns", "add", space], check=True)
    try:
        link = f"ip link add eth0 netns {spaces[0]} type veth peer name eth0 netns {spaces[1]}"
        subprocess.run(link.split(), check=True)
        for number, space in enumerate(spaces, 1):
            for command in (f"addr add 10.99.0.{number}/24 dev eth0", "link set eth0 up"):
                subprocess.run(["ip", "-n", space, *command.split()], check=True)
            subprocess.run(["ip", "-n", space, "link", "set", "lo", "up"], check=True)
        second = Host(tmp_path / "second")
        yield [Machine(host, spaces[0], tmp_path), Machine(second, spaces[1], tmp_path)]
        second.close()
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "delete", space], check=True)


def test_ranks_on_two_machines_are_started_over_ssh(machines: list[Machine]):
    first, second = machines
    processes = [second.start("algo-2"), first.start("algo-1")]
    assert [process.wait() for process in processes] == [0, 0], first.log + second.log
    assert ranks_that_ran(first.host) == 4
    assert (second.host.output / "success").exists()


def test_a_worker_machine_reports_the_ranks_failure(machines: list[Machine]):
    first, second = machines
    processes = [first.start("algo-1", fail="1"), second.start("algo-2", fail="1")]
    assert [process.wait() for process in processes] == [1, 1], first.log + second.log
    assert second.host.failure.startswith("ExecuteUserScriptError:\nExitCode 1\n")


def test_a_stop_of_two_machines_gives_the_ranks_of_both_their_time(machines: list[Machine]):
    first, second = machines
    processes = [second.start("algo-2", wait="1"), first.start("algo-1", wait="1")]
    # All ranks have the master's variables, so its folder; on this machine they can reach it.
    model = first.host.base / "model"
    until(lambda: len(list(model.glob("ready-*"))) == 4)
    until(lambda: WAITS in second.log)
    for process in processes:
        os.kill(children_of(process.pid)[0], signal.SIGTERM)
    assert [process.wait() for process in processes] == [0, 0], first.log + second.log
    assert len(list(model.glob("saved-*"))) == 4


TAKEN = """
cd $TMPDIR
mkdir trackside-mpi-job.a elsewhere
ln -s elsewhere trackside-mpi-job.b
chown -h 65534 trackside-mpi-job.a trackside-mpi-job.b
while sleep 0.1; do echo 0 > trackside-mpi-job; done 2> /dev/null &
cd - > /dev/null
"""


def test_no_other_user_can_report_how_a_job_ended(machines: list[Machine]):
    """Another user has taken all names that can be foretold: a file, a folder, a link."""
    first, second = machines
    left = "ls trackside-mpi-job.a elsewhere; ls -d trackside-mpi-job*"
    processes = [
        second.start("algo-2", before=TAKEN, after=f"cd $TMPDIR && {left}", fail="1"),
        first.start("algo-1", fail="1"),
    ]
    assert [process.wait() for process in processes] == [1, 1], first.log + second.log
    assert second.host.failure.startswith("ExecuteUserScriptError:\nExitCode 1\n")
    assert second.log.split("elsewhere:")[-1].split() == [
        *("trackside-mpi-job.a:", "trackside-mpi-job", "trackside-mpi-job.a", "trackside-mpi-job.b")
    ]
