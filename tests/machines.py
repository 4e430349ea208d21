"""Machines of a test's own: each has a network, processes, a host name, a boot id and a disk that
no other has. All they share is a switch, and at it an S3 server (`trackside server`).

    with machines("a", "b") as network:
        network["a"].run("python", "-c", "…")      # in there
        network["a"].cut(); network["a"].restore(); network["a"].kill(); network["a"].boot()

They are namespaces that processes of this one hold open, so they end with it, however it ends. The
test's process is at the switch as well: it reaches every machine, and the store.
"""

import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import boto3
import pytest

from tests.wait import until
from trackside.api.keys import AccessKeys, Rights
from trackside.files import durable
from trackside.records.layout import Home

PROJECT = Path(__file__).parents[1]
INSIDE = Path("/tmp")
"""Where a machine has its disk."""
HOME, USER_HOME = INSIDE / "trackside", INSIDE / "user"
STORE_PORT = 7007
_SPACES = ("--net", "--mount", "--pid", "--uts", "--ipc")
_INIT = """
import os, signal, sys
def reap(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
signal.signal(signal.SIGCHLD, reap)
print("up", flush=True)
while sys.stdin.buffer.read(1):  # until whoever holds the other end has ended
    pass
"""


@functools.cache
def namespaces_problem() -> str:
    """Why tests cannot have machines; empty when they can."""
    if missing := [
        name for name in ("ip", "mount", "nsenter", "unshare") if not shutil.which(name)
    ]:
        return f"machines need the programs {', '.join(missing)}"
    check = (
        "mount -t tmpfs none /mnt && ip link add trial type bridge && "
        "ip link add one type veth peer name two && ip link set one master trial"
    )
    command = ["unshare", *_SPACES, "--fork", "--mount-proc", "sh", "-c", check]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"machines need namespaces: {done.stderr.strip()}" if done.returncode else ""


def entered(pid: int, *kinds: str) -> list[str]:
    """What a command is written behind to run in the namespaces of this process: these, or all of
    a machine's, in its folder /tmp."""
    whole = () if kinds else ("env", "-C", str(INSIDE))
    return ["nsenter", f"--target={pid}", *(kinds or _SPACES), *whole]


class Space:
    """Namespaces, with a first process that collects the exit codes of orphans."""

    def __init__(self, options: Sequence[str], script: str, *arguments: str) -> None:
        """The script is the shell's, before that first process, with these arguments."""
        enter = f"set -e\n{script}\nexec {sys.executable} -I -S -c '{_INIT}'"
        command = ["unshare", *options, "--fork", "--kill-child", "sh", "-c", enter, "sh"]
        self._holder = subprocess.Popen(
            [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "up\n", "the namespaces could not be made"
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        [self.pid] = map(int, children.read_text().split())

    def enter(self, *kinds: str) -> list[str]:
        """What a command is written behind."""
        return [*entered(self.pid, *kinds)]

    def ip(self, words: str) -> None:
        subprocess.run([*self.enter("--net"), "ip", *words.split()], check=True)

    def close(self) -> None:
        """Every process in there is dead afterwards."""
        self._holder.kill()  # the kernel kills the first process, and with it all others
        self._holder.communicate()
        until(lambda: not Path(f"/proc/{self.pid}").exists())


class Machine:
    """What is on its disk stays when it is killed; whatever runs there does not."""

    def __init__(self, network: "Network", name: str, number: int) -> None:
        self.name = name
        self.address = f"{network.subnet}.{number}"
        self.disk = network.folder / "disks" / name
        """The folder /tmp of the machine, as a test sees it."""
        self.disk.mkdir(parents=True)
        (network.folder / f"address-{name}").write_text(self.address)
        self._network = network
        self._port = f"port{number}"
        self._space: Space | None = None
        for inside in (HOME, USER_HOME):
            self.outside(inside).mkdir()
        self.boot()

    @property
    def home(self) -> Home:
        """Its TRACKSIDE_HOME, as a test sees it."""
        return Home(self.outside(HOME))

    @property
    def is_up(self) -> bool:
        return self._space is not None

    @property
    def pid(self) -> int:
        """Of its first process, as the test's machine numbers it."""
        assert self._space is not None, f"{self.name} is off"
        return self._space.pid

    def outside(self, inside: Path) -> Path:
        """Where a test finds a path of the machine's disk."""
        return self.disk / inside.relative_to(INSIDE)

    def boot(self) -> None:
        """With the disk that it had, another boot id, and a link that works."""
        boot_id = self._network.folder / f"boot-{self.name}"
        boot_id.write_text(f"{uuid.uuid4()}\n")
        mounts = [
            "mount --make-rprivate /",
            "mount -t proc proc /proc",
            'hostname "$1"',
            'mount --bind "$2" /proc/sys/kernel/random/boot_id',
            *_shown_below(self.disk),
            f'mount --rbind "$3" {INSIDE}',
            "mount -t tmpfs tmpfs /dev/shm",
            '[ ! -d "$4" ] || mount -t tmpfs tmpfs "$4"',
            "ip link set lo up",
        ]
        folders = (str(boot_id), str(self.disk), str(self._network.folder))
        self._space = Space(_SPACES, "\n".join(mounts), self.name, *folders)
        self._network.describe(self.name, self._space.pid)
        self._network.plug(self._port, self._space, "eth0")
        self._space.ip(f"addr add {self.address}/24 dev eth0")
        self._space.ip("link set eth0 up")

    def kill(self) -> None:
        """As if its power had been cut."""
        if self._space is not None:
            self._network.describe(self.name, None)
            self._space.close()
            self._network.unplug(self._port)
            self._space = None

    def cut(self) -> None:
        """Pull its network cable."""
        self._network.switch(self._port, "down")

    def restore(self) -> None:
        self._network.switch(self._port, "up")

    def start(
        self,
        *command: str,
        variables: Mapping[str, str] | None = None,
        output: int | IO[bytes] | None = subprocess.DEVNULL,
    ) -> "subprocess.Popen[bytes]":
        """A process in there, which ends with it; `python` is the interpreter of the tests."""
        return subprocess.Popen(
            self._words(command), env=self.environment(variables), stdout=output, stderr=output
        )

    def run(
        self, *command: str, variables: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """A command in there, to its end."""
        environ = self.environment(variables)
        return subprocess.run(
            self._words(command), env=environ, capture_output=True, text=True, check=False
        )

    def environment(self, variables: Mapping[str, str] | None = None) -> dict[str, str]:
        """Nothing of the test's own but its programs and the way to the store."""
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "HOME": str(USER_HOME),
            "TRACKSIDE_HOME": str(HOME),
            **self._network.variables,
            **(variables or {}),
        }

    def _words(self, command: Sequence[str]) -> list[str]:
        assert self._space is not None, f"{self.name} is off"
        program = sys.executable if command[0] == "python" else command[0]
        return [*self._space.enter(), program, *command[1:]]


class Network:
    """A switch with machines. Addresses are `subnet`.N; `url` is the S3 server's."""

    def __init__(self, folder: Path, subnet: str, link: str) -> None:
        self.folder = folder
        self.subnet = subnet
        self.address = f"{subnet}.1"
        self.url = f"http://{self.address}:{STORE_PORT}"
        self.machines: dict[str, Machine] = {}
        self.store_home = Home(folder / "store")
        self.description = folder / "machines.json"
        self._pids: dict[str, int | None] = {}
        self._link = link
        self._space = Space(("--net",), "")
        self._server: subprocess.Popen[str] | None = None
        key, self._secret = AccessKeys(self.store_home.server.root).create("tests", Rights.ADMIN)
        self._key = key.id
        for words in (
            "link set lo up",
            "link add switch type bridge",
            f"addr add {self.address}/24 dev switch",
            "link set switch up",
        ):
            self._space.ip(words)
        self._plug_this_process()

    def __getitem__(self, name: str) -> Machine:
        return self.machines[name]

    def __iter__(self) -> Iterator[Machine]:
        return iter(self.machines.values())

    @property
    def variables(self) -> dict[str, str]:
        """What leads S3 clients, ours too, to the store."""
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": self._key,
            "AWS_SECRET_ACCESS_KEY": self._secret,
            "AWS_REGION": "us-east-1",
        }

    @property
    def client(self) -> Any:
        """boto3's, for the test's process."""
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=self._key,
            aws_secret_access_key=self._secret,
        )

    def make_bucket(self) -> str:
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        self.client.create_bucket(Bucket=name)
        return name

    def add(self, name: str) -> Machine:
        number = 10 + len(self.machines)
        self.machines[name] = Machine(self, name, number)
        return self.machines[name]

    def describe(self, name: str, pid: int | None) -> None:
        """For other processes of the test: the first process of each machine that is up."""
        self._pids[name] = pid
        durable.write_json(self.description, self._pids)

    def plug(self, port: str, space: Space, interface: str) -> None:
        """A cable from the switch to an interface in other namespaces."""
        self._space.ip(f"link add {port} type veth peer name {interface} netns {space.pid}")
        self._space.ip(f"link set {port} master switch up")

    def unplug(self, port: str) -> None:
        """Of a machine that is gone; the kernel does it too, some time later."""
        words = [*self._space.enter("--net"), "ip", "link", "delete", port]
        subprocess.run(words, check=False, stderr=subprocess.DEVNULL)

    def switch(self, port: str, state: str) -> None:
        self._space.ip(f"link set {port} {state}")

    def start_store(self) -> None:
        path = os.pathsep.join(path for path in sys.path if path)
        words = ["-m", "trackside.cli", "server", "--listen", f"{self.address}:{STORE_PORT}"]
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "TRACKSIDE_HOME": str(self.store_home.root),
            "PYTHONPATH": path,
        }
        with (self.folder / "store.log").open("ab") as log:
            self._server = subprocess.Popen(
                [*self._space.enter("--net"), sys.executable, *words, "--quiet"],
                stdout=subprocess.PIPE,
                stderr=log,
                env=environ,
                text=True,
            )
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        assert line, (self.folder / "store.log").read_text()[-2000:]

    def kill_store(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.communicate()
            self._server = None

    def close(self) -> None:
        with ThreadPoolExecutor() as pool:  # the kernel needs 2 s for each
            [*pool.map(Machine.kill, self)]
        self.kill_store()
        # Other links end with their namespaces, some time later: this one's name is needed again.
        subprocess.run(["ip", "link", "delete", self._link], check=True)
        self._space.close()

    def _plug_this_process(self) -> None:
        pid = os.getpid()
        self._space.ip(f"link add test type veth peer name {self._link} netns {pid}")
        self._space.ip("link set test master switch up")
        for words in (
            f"addr add {self.subnet}.254/24 dev {self._link}",
            f"link set {self._link} up",
        ):
            subprocess.run(["ip", *words.split()], check=True)


@contextmanager
def machines(*names: str) -> Iterator[Network]:
    """Skips without namespaces, unless TRACKSIDE_REQUIRE names them."""
    if problem := namespaces_problem():
        if "namespaces" in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
            pytest.fail(problem)
        pytest.skip(problem)
    with ExitStack() as stack:
        number, mark = _own_number()
        stack.enter_context(mark)
        folder = Path(tempfile.mkdtemp(prefix="trackside-machines-"))
        stack.callback(shutil.rmtree, folder)
        network = Network(folder, f"10.213.{number}", f"ts-test-{number}")
        stack.callback(network.close)
        network.start_store()
        for name in names:
            network.add(name)
        yield network


def _own_number() -> tuple[int, socket.socket]:
    """Of a subnet, as long as the socket is open: tests of several processes have links into the
    same network."""
    for number in range(1, 255):
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(f"\0trackside-machines-{number}")
        except OSError:
            mark.close()
        else:
            return number, mark
    raise AssertionError("254 tests have machines already")


def _shown_below(disk: Path) -> list[str]:
    """Programs that lie where a machine has its disk are shown there again."""
    lines = []
    for place in dict.fromkeys((PROJECT, Path(sys.prefix), Path(sys.base_prefix))):
        if place.is_relative_to(INSIDE):
            shown = disk / place.relative_to(INSIDE)
            lines += [f"mkdir -p '{shown}'", f"mount --bind '{place}' '{shown}'"]
    return lines
