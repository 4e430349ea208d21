import json
import socket
import subprocess
from pathlib import Path

import pytest

from tests.toolkit.conftest import TRAIN, Host, needs, needs_root
from tests.wait import until
from trackside.errors import ToolkitError
from trackside.toolkit.hosts import wait_for_each_other, wait_for_names, wait_for_port


def test_an_unknown_host_is_named_after_the_wait(host: Host):
    names = ["localhost", "no-such-host.invalid"]
    host.configure("resourceconfig", {"current_host": "localhost", "hosts": names})
    host.script("raise SystemExit('must not run')")
    assert host.train(TRACKSIDE_HOST_WAIT_SECONDS="1").code == 1
    assert host.failure.startswith("Host 'no-such-host.invalid' has no address.")
    assert "TRACKSIDE_HOST_WAIT_SECONDS" in host.failure


def test_a_host_that_appears_late_is_waited_for(host: Host):
    needs("unshare", "unshare")
    needs_root()
    names = host.base / "hosts"
    names.write_text("127.0.0.1 localhost\n")
    host.configure("resourceconfig", {"current_host": "algo-1", "hosts": ["algo-1", "late-host"]})
    host.script("print('together')")
    # A private /etc/hosts, as the process sandbox makes it.
    enter = f"mount --bind {names} /etc/hosts && exec {' '.join(TRAIN)}"
    process = host.start(
        ("unshare", "-m", "sh", "-c", enter),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        TRACKSIDE_HOST_WAIT_SECONDS="150",
    )
    until((host.base / "model").exists)
    with names.open("a") as file:
        file.write("127.0.0.1 algo-1 late-host\n")
    output, log = process.communicate()
    assert output == b"together\n", log.decode()


@pytest.mark.parametrize("value", ["true", "True"])
def test_in_studio_no_host_is_waited_for(host: Host, value: str):
    names = {"current_host": "a.invalid", "hosts": ["a.invalid", "b.invalid"]}
    host.configure("resourceconfig", names)
    host.script("print('ran')")
    assert host.train(SM_STUDIO_LOCAL_MODE=value).stdout == b"ran\n"


def test_a_single_host_is_never_looked_up(host: Host):
    host.configure("resourceconfig", {"current_host": "a.invalid", "hosts": ["a.invalid"]})
    host.script("import os; print(os.environ['SM_HOSTS'])")
    assert json.loads(host.train().stdout) == ["a.invalid"]


def test_a_wait_that_is_not_a_number_is_refused(host: Host):
    host.script("")
    assert host.train(TRACKSIDE_HOST_WAIT_SECONDS="soon").code == 1
    assert host.failure.startswith("TRACKSIDE_HOST_WAIT_SECONDS = 'soon'.")


def test_a_port_is_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        wait_for_port("127.0.0.1", port, 60)


def test_a_port_without_a_listener_is_named():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        with pytest.raises(ToolkitError, match=f"does not answer on port {port}"):
            wait_for_port("127.0.0.1", port, 0.2)


def test_names_that_resolve_are_not_waited_for():
    wait_for_names(["localhost"] * 20, 0)


def test_hosts_with_a_common_folder_wait_for_each_other_s_files(tmp_path: Path):
    (tmp_path / "algo-2").write_text("10.0.0.2")  # it may have ended already, and its name be gone
    table = tmp_path / "table"
    table.write_text("127.0.0.1\tlocalhost\n")
    wait_for_each_other(["algo-1", "algo-2"], "algo-1", str(tmp_path), 0.0, str(table))
    assert table.read_text() == "127.0.0.1\tlocalhost\n10.0.0.2\talgo-2\n"
    assert (tmp_path / "algo-1").exists()
    with pytest.raises(ToolkitError, match="'algo-3' has not started"):
        wait_for_each_other(["algo-1", "algo-3"], "algo-1", str(tmp_path), 0.0)
