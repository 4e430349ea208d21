"""TensorBoard for a selection, through the page: a real one, asked as its own script does."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.jobs.conftest import make_spec
from tests.other_users import FIRST, needs_other_users, packages_for_all, python_for_all
from tests.page.conftest import Browser, Team, serving
from tests.views.curves.conftest import stored_curves, write
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.page import tensorboard
from trackside.page.tensorboard import TensorBoard
from trackside.records.rights import Rights

WORKER = "trackside.page.tensorboard_worker"


@pytest.fixture
def curves(jobs: Jobs) -> Jobs:
    for number, name in enumerate(("one", "my-run-v2--x5"), 1):
        jobs.submit(make_spec(name))
        jobs.wait(name)
        points = [(step, float(number * step)) for step in range(3)]
        write(stored_curves(jobs, name), {"loss": points}).close()
    return jobs


@pytest.fixture
def page(curves: Jobs) -> Iterator[Browser]:
    with serving(curves) as browser:
        browser.open_session()
        yield browser


def workers() -> list[psutil.Process]:
    found = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            if WORKER in each.cmdline():
                found.append(each)
    return found


def test_tensorboard_shows_a_selection_and_ends_when_idle(
    page: Browser, monkeypatch: pytest.MonkeyPatch
):
    assert page.get("/ui/api/session").json["tensorboard"] is True
    reply = page.post("/ui/api/tensorboard", {"jobs": ["one", "my-run-v2--x5"]})
    path = reply.json["path"]
    assert path == "/ui/tensorboard/one,my_run.v2/"
    index = page.get(path)
    assert index.status == 200
    assert b"<title>TensorBoard</title>" in index.body
    assert b'name="tb-relative-root" content="./"' in index.body
    (font, *_) = re.findall(rb"url\(([^)]*font-roboto[^)]*)\)", index.body)
    assert page.get(f"{path}{font.decode()}").status == 200
    policy = index.headers["content-security-policy"]
    assert "frame-ancestors 'self'" in policy
    assert "unsafe-inline" not in re.findall(r"script-src [^;]*", policy)[0]
    for runs in ("data/runs", "experiment/defaultExperimentId/data/runs"):
        assert sorted(page.get(f"{path}{runs}").json) == ["my_run.v2", "one"]
    assert page.get(f"{path}experiment/other/data/runs").code == "not_there"
    other = page.post("/ui/api/tensorboard", {"jobs": ["one"]}).json["path"]
    assert page.get(f"{other}data/runs").json == ["one"]
    form = {"content-type": "application/x-www-form-urlencoded", "x-trackside-csrf": ""}
    query = "data/plugin/scalars/scalars_multirun"
    scalars = page.post(f"{other}{query}", b"tag=loss&runs=one", **form)
    assert [point[2] for point in scalars.json["one"]] == [0.0, 1.0, 2.0]
    assert len(workers()) == 1
    monkeypatch.setattr(tensorboard, "IDLE_SECONDS", 0.05)
    until(lambda: not workers())
    monkeypatch.setattr(tensorboard, "IDLE_SECONDS", 600.0)
    assert page.get(f"{other}data/runs").json == ["one"]  # an old tab starts it again


def test_slashes_are_added_where_they_are_missing(page: Browser):
    assert page.get("/ui/tensorboard").headers["location"] == "/ui/tensorboard/"
    moved = page.get("/ui/tensorboard/one,two", X_Forwarded_Prefix="/lab")
    assert moved.headers["location"] == "/lab/ui/tensorboard/one,two/"
    assert page.get("/ui/tensorboard/").code == "not_there"


def test_it_is_behind_the_same_login(team: Team, curves: Jobs):
    assert team.browser().get("/ui/tensorboard/one/").code == "login_needed"
    reader = team.logged_in("eve", Rights.READ)
    assert reader.post("/ui/api/tensorboard", {"jobs": ["nobody"]}).code == "job_not_found"
    cross = reader.get("/ui/tensorboard/one/", Sec_Fetch_Site="cross-site")
    assert cross.code == "from_elsewhere"
    assert not workers()


def test_other_users_of_the_machine_cannot_guess_its_address(page: Browser):
    page.post("/ui/api/tensorboard", {"jobs": ["one"]})
    (worker,) = workers()
    started = worker.children()
    lines = [" ".join(each.cmdline()) for each in (worker, *started)]
    assert not [line for line in lines if "path_prefix" in line or "unix:" in line]
    ports = {each.laddr.port for one in started for each in one.net_connections("tcp")}
    assert ports
    for port in ports:
        assert Browser(port).get("/").status == 404


def test_a_failure_is_reported_in_words(page: Browser, monkeypatch: pytest.MonkeyPatch):
    say = f"print({json.dumps(json.dumps({'error': 'TensorBoard did not start. No <room>.'}))})"
    monkeypatch.setattr(tensorboard, "_COMMAND", (sys.executable, "-c", say))
    reply = page.post("/ui/api/tensorboard", {"jobs": ["one"]})
    assert (reply.status, reply.code) == (502, "tensorboard_failed")
    shown = page.get("/ui/tensorboard/one/")
    assert b"No &lt;room&gt;." in shown.body
    monkeypatch.setattr(tensorboard, "is_installed", lambda: False)
    assert page.post("/ui/api/tensorboard", {"jobs": ["one"]}).code == "missing_extra"


def test_it_ends_with_the_server(curves: Jobs):
    board = TensorBoard(curves.settings)
    board.start()
    (worker,) = workers()
    board.close()
    assert not worker.is_running()


def test_it_ends_with_a_server_that_was_killed(curves: Jobs, tmp_path: Path):
    code = (
        "import sys, time\n"
        "from trackside.page.tensorboard import TensorBoard\n"
        "from trackside.settings import Settings\n"
        "board = TensorBoard(Settings.load())\n"
        "board.start()\n"
        "print(board._process.pid, flush=True)\n"
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        worker = psutil.Process(int(server.stdout.readline()))
        server.kill()
        until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE)


@needs_other_users
def test_a_process_of_another_user_gets_no_curves(curves: Jobs):
    grpc = packages_for_all("grpc")
    if not grpc:
        pytest.skip("needs grpc where every user may read it")
    board = TensorBoard(curves.settings)
    board.start()
    (worker,) = workers()
    (port,) = {each.laddr.port for each in worker.net_connections("tcp") if not each.raddr}
    code = (
        "import grpc, sys\n"
        "from tensorboard.data.proto import data_provider_pb2 as wire\n"
        "from tensorboard.data.proto import data_provider_pb2_grpc as service\n"
        f"stub = service.TensorBoardDataProviderStub(grpc.insecure_channel('127.0.0.1:{port}'))\n"
        "try: print(stub.ListRuns(wire.ListRunsRequest(experiment_id='one')))\n"
        "except grpc.RpcError as error: print(error.code())"
    )
    command = [python_for_all(), "-c", code]
    environment = {"PYTHONPATH": grpc, "PATH": os.environ["PATH"]}
    own = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "one" in own.stdout, own.stderr
    other = subprocess.run(
        command, env=environment, user=FIRST, group=FIRST, capture_output=True, text=True
    )
    assert "PERMISSION_DENIED" in other.stdout, other.stderr
    board.close()
