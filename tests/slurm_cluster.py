"""A real Slurm on machines of a test's own: a controller, which is also where jobs are submitted,
and nodes. Nothing of it is on this machine's own network, and no file is shared between them.

    with slurm_cluster("n1", "n2") as cluster:
        cluster.head.run("sbatch", …)
        cluster.start_node("n1"); cluster.kill_controller()

The tests share one, `slurm` of tests/conftest.py, so they must be in the group "slurm" of xdist.
"""

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.machines import INSIDE, Machine, Network, entered, machines
from tests.wait import until

HEAD = "head"
COMMANDS = ("sbatch", "squeue", "scontrol", "scancel", "sinfo")
_PROGRAMS = ("munged", "slurmctld", "slurmd", *COMMANDS)
_SOCKET = INSIDE / "munge.socket"
_CONFIGURATION = INSIDE / "slurm" / "slurm.conf"
_NODE = "CPUs=4 RealMemory=16000 Gres=gpu:2"
"""Of each node: so Slurm counts, and nothing limits a job to it."""
_SLURM_CONF = """
ClusterName=tests
SlurmctldHost={head}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={socket}
CredType=cred/munge
SlurmctldPort=16817
SlurmdPort=16818
SrunPortRange=16900-16999
StateSaveLocation=/tmp/slurm/state
SlurmdSpoolDir=/tmp/slurm/spool
SlurmctldPidFile=/tmp/slurm/slurmctld.pid
SlurmdPidFile=/tmp/slurm/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout={node_timeout}
KillWait=5
MinJobAge=3600
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
SlurmdParameters=config_overrides
SelectType=select/cons_tres
GresTypes=gpu
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=30
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=off
"""


class SlurmCluster:
    def __init__(self, network: Network, nodes: Sequence[str], node_timeout: int) -> None:
        self.network = network
        self.nodes = [network[name] for name in nodes]
        self._key = secrets.token_bytes(256)
        self._node_timeout = node_timeout
        self._daemons: list[subprocess.Popen[bytes]] = []
        for machine in network:
            self._set_up(machine)
        self.start_controller()
        for node in self.nodes:
            self.start_node(node.name)

    @property
    def head(self) -> Machine:
        return self.network[HEAD]

    def said(self, *command: str) -> str:
        """What a command of Slurm prints on the login node."""
        done = self.head.run(*command, variables=self.variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def states(self) -> dict[str, str]:
        """Of each node."""
        lines = self.said("sinfo", "-h", "-N", "-p", "main", "-o", "%N %T").splitlines()
        return dict(line.split() for line in lines)

    @property
    def variables(self) -> dict[str, str]:
        return {"SLURM_CONF": str(_CONFIGURATION)}

    def log_in(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Slurm's commands of this process are those of the login node; their wrappers are put into
        `folder`. The files are this machine's: nodes see them all but those below /tmp."""
        enter = " ".join(entered(self.head.pid))
        assigned = " ".join(f"{name}={value}" for name, value in self.variables.items())
        folder.mkdir()
        for program in COMMANDS:
            wrapper = folder / program
            wrapper.write_text(f'#!/bin/sh\nexec {enter} env {assigned} {program} "$@"\n')
            wrapper.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    @contextmanager
    def sshd(self, folder: Path) -> Iterator[Path]:
        """Runs it on the login node; yields a configuration for ssh, which knows `head`."""
        folder.mkdir()
        for name in ("host", "user"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(command, check=True)
        place = self.head.disk / "sshd"
        place.mkdir(mode=0o700)
        shutil.copy(folder / "host", place)
        shutil.copy(folder / "user.pub", place / "authorized")
        assigned = " ".join(f"{name}={value}" for name, value in self.variables.items())
        inside = INSIDE / "sshd"
        (place / "config").write_text(
            f"Port 2222\nHostKey {inside}/host\nAuthorizedKeysFile {inside}/authorized\n"
            f"PidFile {inside}/pid\nStrictModes no\nPermitRootLogin yes\nSetEnv {assigned}\n"
        )
        (folder / "config").write_text(
            f"Host {HEAD}\nHostName {self.head.address}\nPort 2222\nBatchMode yes\n"
            f"IdentityFile {folder}/user\nUserKnownHostsFile {folder}/known\n"
            "StrictHostKeyChecking accept-new\n"
        )
        Path("/run/sshd").mkdir(exist_ok=True)
        with (place / "log").open("wb") as log:
            daemon = self.head.start(
                "/usr/sbin/sshd", "-D", "-e", "-f", f"{inside}/config", output=log
            )
        try:
            until(lambda: b"listening" in (place / "log").read_bytes())
            yield folder / "config"
        finally:
            self.head.run("sh", "-c", f"kill $(cat {inside}/pid)")
            daemon.wait(60)
            shutil.rmtree(place)

    def free(self) -> None:
        """No job is left, nor a node that is still being freed, nor files of jobs."""
        self.said("scancel", "--full", "--user=root")
        until(lambda: not self.said("squeue", "-h"), seconds=120)
        for node in self.nodes:
            for log in sorted(node.disk.glob("trackside-*.log")):
                sys.stderr.write(f"== {node.name} {log.name}\n{log.read_text()[-3000:]}\n")
                log.unlink()
            shutil.rmtree(node.disk / f"trackside-{os.getuid()}", ignore_errors=True)

    def start_controller(self) -> None:
        self._start(self.head, "slurmctld", "-D")
        until(lambda: self.head.run("scontrol", "ping", variables=self.variables).returncode == 0)

    def start_node(self, name: str) -> None:
        self._start(self.network[name], "slurmd", "-D", "-N", name)

    def boot(self, name: str) -> None:
        """A machine that was killed, and what runs there."""
        self.network[name].boot()
        self._start_munge(self.network[name])
        self.start_node(name)

    def log(self, name: str) -> str:
        return (self.network[name].disk / "slurm" / "log").read_text(errors="replace")

    def _set_up(self, machine: Machine) -> None:
        folder = machine.outside(_CONFIGURATION.parent)
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True)
        lines = [
            f"NodeName={node.name} NodeAddr={node.address} {_NODE} State=UNKNOWN"
            for node in self.nodes
        ]
        text = _SLURM_CONF.format(
            head=HEAD,
            address=self.head.address,
            socket=_SOCKET,
            nodes="\n".join(lines),
            node_timeout=self._node_timeout,
        )
        (folder / "slurm.conf").write_text(text)
        for number in range(2):
            (folder / f"gpu{number}").touch()
        (folder / "gres.conf").write_text(f"Name=gpu File={_CONFIGURATION.parent}/gpu[0-1]\n")
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        key = machine.disk / "munge.key"
        key.write_bytes(self._key)
        key.chmod(0o400)
        self._start_munge(machine)

    def _start_munge(self, machine: Machine) -> None:
        places = {"socket": _SOCKET, "key-file": INSIDE / "munge.key"}
        files = {name: INSIDE / f"munge.{name}" for name in ("log", "pid", "seed")}
        options = [
            *(f"--{name}={path}" for name, path in places.items()),
            *(f"--{name}-file={path}" for name, path in files.items()),
        ]
        machine.outside(_SOCKET).unlink(missing_ok=True)
        self._daemons.append(machine.start("munged", "--foreground", "--force", *options))
        until(machine.outside(_SOCKET).exists)

    def _start(self, machine: Machine, *command: str) -> None:
        with (machine.disk / "slurm" / "log").open("ab") as log:
            daemon = machine.start(*command, variables=self.variables, output=log)
        self._daemons.append(daemon)

    def collect(self) -> None:
        """What ended with its machine."""
        for daemon in self._daemons:
            daemon.wait(60)


def slurm_problem() -> str:
    missing = [name for name in _PROGRAMS if not shutil.which(name, path=_path())]
    return f"Slurm's tests need the programs {', '.join(missing)}" if missing else ""


def _path() -> str:
    return os.pathsep.join((os.environ["PATH"], "/usr/sbin"))


@contextmanager
def slurm_cluster(*nodes: str, node_timeout: int = 15) -> Iterator[SlurmCluster]:
    """Skips without Slurm, unless TRACKSIDE_REQUIRE names it. The controller takes a node for lost
    that is silent for `node_timeout` seconds."""
    if problem := slurm_problem():
        if "slurm" in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
            pytest.fail(problem)
        pytest.skip(problem)
    with machines(HEAD, *nodes) as network:
        cluster = SlurmCluster(network, nodes, node_timeout)
        yield cluster
    cluster.collect()
