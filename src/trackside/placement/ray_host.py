"""What runs in Ray's actor on the node of a host: it starts the supervisor there, looks after it,
and says how it is.

The actor may be killed at any time, and another take its place: all that it knows is in the host's
folder and in Ray's key-value store. The module travels with Ray by its content, to nodes that have
nothing of ours, so it imports nothing of ours.
"""

import hashlib
import io
import json
import os
import platform
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zipfile
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

NAMESPACE = "trackside"
"""Of actors, placement groups and keys."""
_NOTICE = "notice.json"
_WATCH_SECONDS = 1.0
_KILL_SECONDS = 60.0
_GPU_VARIABLES = (
    "ASCEND_RT_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "HABANA_VISIBLE_MODULES",
    "HIP_VISIBLE_DEVICES",
    "NEURON_RT_VISIBLE_CORES",
    "ONEAPI_DEVICE_SELECTOR",
    "ROCR_VISIBLE_DEVICES",
    "TPU_VISIBLE_CHIPS",
)
"""What Ray tells a worker about the devices that are its own."""


def note_key(group: str, host: str) -> bytes:
    return f"note/{group}/{host}".encode()


def package_key(key: str) -> bytes:
    return f"package/{key}".encode()


class Host:
    """`plan` has `group`, `host`, `hosts`; to start: `place` in the group, `command`, `package` and
    `fits`; to look after what was started before: `folder`, and `is_withdrawn` to ask it to end."""

    def __init__(self, plan: dict[str, Any], *bundle: bytes) -> None:
        self._plan = plan
        try:
            self._folder = self._begun(bundle) if bundle else Path(plan["folder"])
        except Exception as error:
            self._note(error=f"{type(error).__name__}: {error}"[:500])
            raise
        if plan.get("is_withdrawn"):
            self._note(**{**self._noted(plan["host"]), "is_withdrawn": True})
            self.ask_to_end()
        threading.Thread(target=self._watch, daemon=True).start()

    def state(self) -> dict[str, Any]:
        """`{"code": …}` of a supervisor that has ended; else empty."""
        return _read(self._folder / "exit.json") or {}

    def ask_to_end(self) -> None:
        supervisor = _read(self._folder / "supervisor.json")
        if supervisor is not None and _is_alive(supervisor):
            os.kill(supervisor["pid"], signal.SIGTERM)

    def kill(self) -> None:
        """Nothing of the host runs afterwards."""
        start = _read(self._folder / "start.json")
        if start is None:  # it ended, and nothing is left of it
            return
        if not self.state():
            _write(self._folder / "exit.json", json.dumps({"code": -signal.SIGKILL}).encode())
        self._run(start, "--kill")
        (self._folder / "bundle.json").unlink(missing_ok=True)  # it has secrets

    def _begun(self, bundle: tuple[bytes, ...]) -> Path:
        root = Path(tempfile.gettempdir()) / f"trackside-{os.getuid()}"
        _make_private(root)
        folder = root / f"{self._plan['group']}.{self._plan['host']}"
        _make_private(folder)
        node, addresses = self._places()
        python = _interpreter(root, self._plan["package"], self._plan["fits"])
        environment = {
            **_environment_of_node(),
            "TRACKSIDE_HOME": str(folder / "home"),
            "TRACKSIDE_GROUP_FILE": str(folder / "bundle.json"),
            "TRACKSIDE_GROUP_ADDRESSES": ",".join(addresses),
            "TRACKSIDE_GROUP_NOTICE": str(folder / _NOTICE),
        }
        _make_private(folder / "home")
        _write(folder / "bundle.json", zlib.decompress(b"".join(bundle)))
        start = {"python": python, "command": self._plan["command"], "environment": environment}
        _write(folder / "start.json", json.dumps(start).encode())
        self._note(node=node, address=addresses[self._plan["place"]], folder=str(folder))
        self._run(start)
        return folder

    def _places(self) -> tuple[str, list[str]]:
        """The node of this host, and the address of each host."""
        ray = import_module("ray")
        groups = import_module("ray.util.placement_group")
        table = groups.placement_group_table(groups.get_current_placement_group())
        address_of = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
        nodes = table["bundles_to_node_id"]
        addresses = [address_of[nodes[place]] for place in range(len(self._plan["hosts"]))]
        return ray.get_runtime_context().get_node_id(), addresses

    def _run(self, start: dict[str, Any], *option: str) -> None:
        """`keep_host`, which leaves this process behind."""
        command = [start["python"], "-P", "-m", "trackside.placement.keep_host"]
        subprocess.run(
            [*command, *option, str(self._folder_of(start))],
            env=start["environment"],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            timeout=_KILL_SECONDS,
            check=True,
        )

    @staticmethod
    def _folder_of(start: dict[str, Any]) -> Path:
        return Path(start["environment"]["TRACKSIDE_HOME"]).parent

    def _watch(self) -> None:
        while True:
            time.sleep(_WATCH_SECONDS)
            try:
                if self._looked():
                    os._exit(0)
            except Exception:  # noqa: BLE001 Ray may be away; it is tried again
                traceback.print_exc()

    def _looked(self) -> bool:
        """Whether the whole group has ended, and its machines are given back."""
        note = self._noted(self._plan["host"])
        exited = self.state()
        if exited and "code" not in note:
            self._note(**note, **exited)
            if exited["code"] == 0 and not (self._folder / "home").exists():
                shutil.rmtree(self._folder, ignore_errors=True)
        elif "code" not in note:
            keeper = _read(self._folder / "keeper.json")
            start = _read(self._folder / "start.json")
            if start is not None and (keeper is None or not _is_alive(keeper)):
                self._run(start)
            self._pass_on_notice()
            return False
        if not all("code" in self._noted(host) for host in self._plan["hosts"]):
            return False
        self._give_back()
        return True

    def _pass_on_notice(self) -> None:
        """Once: that a node of the group is drained, which Ray does not tell its processes. Every
        host's supervisor is told, because only the first host's decides."""
        path = self._folder / _NOTICE
        if path.exists() or not (draining := _draining_nodes()):
            return
        for host in self._plan["hosts"]:
            if self._noted(host).get("node") in draining:
                _write(path, json.dumps({"host": host}).encode())
                self.ask_to_end()
                return

    def _give_back(self) -> None:
        groups = import_module("ray.util.placement_group")
        try:
            group = groups.get_placement_group(self._plan["group"])
        except ValueError:  # it was removed already
            return
        groups.remove_placement_group(group)

    def _noted(self, host: str) -> dict[str, Any]:
        store = import_module("ray.experimental.internal_kv")
        key = note_key(self._plan["group"], host)
        return dict(json.loads(store._internal_kv_get(key, namespace=NAMESPACE.encode()) or "{}"))

    def _note(self, **note: Any) -> None:
        """For whoever asks later, also when this actor and its node are gone."""
        store = import_module("ray.experimental.internal_kv")
        key = note_key(self._plan["group"], self._plan["host"])
        store._internal_kv_put(key, json.dumps(note), True, namespace=NAMESPACE.encode())


def _draining_nodes() -> set[str]:
    """The ids of the nodes that Ray is about to lose and that still run: a node that works is
    drained only when it is preempted. Empty where this version of Ray does not tell."""
    state = getattr(import_module("ray._private.state"), "state", None)
    found = getattr(state, "get_draining_nodes", None)
    return set(found()) if found is not None else set()


def _interpreter(root: Path, key: str, fits: str) -> str:
    """One that has Trackside, and after it all that this node's own interpreter has."""
    own = f"{sys.platform}-{platform.machine()}-{sys.version_info[0]}.{sys.version_info[1]}"
    if own != fits:  # compiled for another system: it takes what is installed here
        return sys.executable
    paths = [*site.getsitepackages(), site.getusersitepackages()]
    mark = hashlib.sha256(json.dumps([sys.executable, sys.version, paths]).encode())
    folder = root / "packages" / f"{key}-{mark.hexdigest()[:12]}"
    python = folder / "bin" / "python3"
    if not python.exists():
        _make_private(folder.parent)
        draft = Path(tempfile.mkdtemp(dir=folder.parent))
        _make_environment(draft, folder, key, paths)
        try:
            os.rename(draft, folder)
        except OSError:  # another host of this node was first
            shutil.rmtree(draft)
    return str(python)


def _make_environment(draft: Path, folder: Path, key: str, paths: list[str]) -> None:
    """As `venv` makes one, at `draft`, to be found at `folder`."""
    store = import_module("ray.experimental.internal_kv")
    content = store._internal_kv_get(package_key(key), namespace=NAMESPACE.encode())
    if content is None:
        raise RuntimeError("Trackside's package is not in Ray's store")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = draft / "lib" / version / "site-packages"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(draft)
    packages.parent.mkdir(parents=True)
    os.rename(draft / "own", packages)
    lines = [f"import site; site.addsitedir({path!r})" for path in paths if os.path.isdir(path)]
    lines.append(str(folder / "others"))
    (packages / "trackside-node.pth").write_text("\n".join(lines) + "\n")
    base = getattr(sys, "_base_executable", sys.executable)
    (draft / "bin").mkdir()
    for name in ("python", "python3"):
        (draft / "bin" / name).symlink_to(base)
    (draft / "pyvenv.cfg").write_text(
        f"home = {os.path.dirname(base)}\ninclude-system-site-packages = false\n"
    )


def _environment_of_node() -> dict[str, str]:
    """What Ray was started with on this node, and the devices that are the actor's: a worker has
    variables of Ray's own besides, which are not for scripts."""
    try:
        text = Path(f"/proc/{os.environ['RAY_RAYLET_PID']}/environ").read_bytes().decode()
        pairs = [entry.partition("=") for entry in text.split("\0") if "=" in entry]
        variables = {name: value for name, _, value in pairs}
    except (KeyError, OSError, UnicodeDecodeError):
        variables = dict(os.environ)
    found = {name: value for name, value in variables.items() if not name.startswith("RAY_")}
    return {**found, **{name: os.environ[name] for name in _GPU_VARIABLES if name in os.environ}}


def _make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != os.getuid():
        raise PermissionError(f"{str(folder)!r} is another user's")


def _write(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(draft, path)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(path.read_text()))
    except (FileNotFoundError, ValueError):
        return None


def _is_alive(identity: dict[str, Any]) -> bool:
    """A pid counts only with its start time."""
    try:
        status = Path(f"/proc/{identity['pid']}/stat").read_text()
    except (OSError, KeyError):
        return False
    words = status[status.rindex(")") + 2 :].split()
    return words[0] not in "ZX" and int(words[19]) == identity["started"]
