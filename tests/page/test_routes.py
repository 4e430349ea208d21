"""The routes of the API over real jobs, with names and texts of any kind."""

import gzip
import http.client
import json
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest

from tests.jobs.conftest import make_spec
from tests.page.conftest import Browser
from tests.test_errors import made, tree
from tests.views.curves.conftest import stored_curves, write
from tests.wait import until
from trackside.errors import TracksideError
from trackside.jobs.jobs import Jobs
from trackside.page.app import Page
from trackside.page.call import to_json
from trackside.page.problems import as_json, status_of
from trackside.page.this_machine import ThisMachine
from trackside.views.curves import binary_frame
from trackside.views.logs import log_search

DOCUMENTED = Path(__file__).parents[2] / "docs" / "page-api.md"
HOSTILE = "<script>alert('1')</script> \u202e\"&\n\t%2e%2e/../"


@pytest.fixture
def finished(jobs: Jobs) -> Callable[..., str]:
    def make(name: str, points: dict[str, Any] | None = None, **request: Any) -> str:
        jobs.submit(make_spec(name, **request))
        jobs.wait(name)
        if points:
            write(stored_curves(jobs, name), points).close()
        return name

    return make


def test_every_route_is_documented_and_every_documented_route_exists(jobs: Jobs):
    page = Page(jobs, ThisMachine(jobs))
    known = {f"{each.method} {each.path}" for each in page.api}
    known |= {"GET session", "POST login", "POST logout", "GET live", "POST tensorboard"}
    found = re.findall(r"^### `(GET|POST) ([^`?]*)", DOCUMENTED.read_text(), re.M)
    documented = {f"{method} {path.strip()}" for method, path in found}
    assert documented == {line.replace("{name}", "NAME").replace("{id}", "ID") for line in known}
    page.close()


def test_the_table_is_filtered_sorted_and_paged(browser: Browser, finished: Callable[..., str]):
    for number in range(3):
        finished(f"job-{number}", hyper={"lr": str(number / 10), "text": HOSTILE})
    path = f"/ui/api/jobs?q={quote('lr>0')}&sort=param.lr&desc=0&limit=1&columns=param.lr"
    # The table reads jobs while somebody looks at it.
    found = until(lambda: (found := browser.get(path).json)["matching"] == 2 and found)
    assert found["total"] == 3
    assert [row["name"] for row in found["rows"]] == ["job-1"]
    assert found["rows"][0]["values"] == {"param.lr": "0.1"}
    assert "param.text" in found["columns"]
    assert found["rows"][0]["may_change"] is True


def test_a_wrong_query_says_where(browser: Browser):
    reply = browser.get(f"/ui/api/jobs?q={quote('status:failed lr>')}")
    assert (reply.status, reply.code) == (400, "bad_query")
    assert isinstance(reply.json["at"], int)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/curves",
        "/log",
        "/log/search?q=x",
        "/setup",
        "/code?path=a",
        "/artifact?name=a",
        "/tensors",
        "/heat?kind=gradients",
        "/tensor?name=a",
        "/tensor/values?name=a&step=1",
        "/curve.csv?id=x",
    ],
)
@pytest.mark.parametrize("name", ["nobody", "%2e%2e", quote(HOSTILE.replace("\n", ""), safe="")])
def test_an_unknown_job_is_not_found(browser: Browser, name: str, path: str):
    reply = browser.get(f"/ui/api/jobs/{name}{path}")
    assert (reply.status, reply.code) in [(404, "job_not_found"), (404, "not_there")]


def test_one_job_is_shown(browser: Browser, finished: Callable[..., str]):
    finished("bad", hyper={"failure": f"RuntimeError: {HOSTILE}"})
    found = browser.get("/ui/api/jobs/bad").json
    assert found["row"]["name"] == "bad"
    assert found["row"]["status"] == "Failed"
    assert HOSTILE.strip() in found["failure"]["text"]
    assert found["sentence"]
    assert found["command"].startswith("trackside run") or found["command"] == ""


def test_series_come_in_one_frame_or_as_they_are_ready(
    browser: Browser, finished: Callable[..., str]
):
    nan = float("nan")
    points = {f"loss{HOSTILE[:8]}": [(0, 1.0), (1, nan), (2, float("inf"))], "accuracy": [(0, 0.5)]}
    finished("one", points)
    curves = browser.get("/ui/api/jobs/one/curves").json["curves"]
    assert {each["name"] for each in curves} == set(points)
    assert "Infinity" in [each["last"] for each in curves]
    asked = [{"job": "one", "id": each["id"]} for each in curves]
    body = {"curves": asked, "x": "step", "points": 100}
    reply = browser.post("/ui/api/series", body)
    assert reply.headers["content-type"] == binary_frame.CONTENT_TYPE
    assert len(binary_frame.decode(reply.body)) == 2
    assert reply.body.count(binary_frame.MAGIC) == 1
    streamed = browser.post("/ui/api/series", {**body, "stream": True})
    assert streamed.body.count(binary_frame.MAGIC) == 2
    groups = {"groups": [{"key": "a", "curves": asked[:1]}], "x": "step", "points": 10}
    (group,) = binary_frame.decode(browser.post("/ui/api/groups", groups).body)
    assert group["key"] == "a"
    assert browser.post("/ui/api/series", {**body, "x": "sideways"}).code == "invalid_curve_request"
    csv = browser.get(f"/ui/api/jobs/one/curve.csv?id={curves[0]['id']}")
    assert csv.body.startswith(b"step,time,value\n")
    assert "attachment" in csv.headers["content-disposition"]


def test_half_a_character_in_a_name_is_refused(browser: Browser):
    """As JSON can escape it; no database takes it."""
    half = {"curves": [{"job": "\ud83d", "id": "x"}], "x": "step", "points": 10}
    for path, body in (
        ("series", half),
        ("groups", {**half, "groups": [{"key": "a", "curves": half["curves"]}]}),
        ("jobs/tag", {"jobs": ["one"], "put": {"\ud83d": "a"}}),
    ):
        reply = browser.post(f"/ui/api/{path}", body)
        assert (reply.status, reply.code) == (400, "bad_request")


def test_logs_are_paged_and_searched(browser: Browser, finished: Callable[..., str]):
    finished("one", hyper={"lines": "2000"})
    page = browser.get("/ui/api/jobs/one/log?at=line:5&count=2").json
    assert (page["first"], len(page["lines"]), page["host"]) == (5, 2, "algo-1")
    found = browser.get("/ui/api/jobs/one/log/search?q=%5B05%5D%24&most=100")
    assert found.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in found.body.splitlines()]
    assert lines[-1]["done"] is True
    assert lines[-1]["matches"] == len(lines) - 1 == 100
    assert browser.get("/ui/api/jobs/one/log/search?q=(").code == "bad_pattern"
    for query, code in (("at=nowhere", "input"), ("count=0", "bad_request"), ("host=x", "job")):
        assert browser.get(f"/ui/api/jobs/one/log?{query}").code == code


def test_a_search_ends_when_nobody_waits_for_it(
    browser: Browser, finished: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    """With an expression that takes for ever on a line."""
    monkeypatch.setattr(log_search, "SECONDS", 600.0)
    finished("one", hyper={"lines": "20000"})
    pattern = quote("(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*z$")
    for _ in range(3):  # two may run at a time
        connection = http.client.HTTPConnection("127.0.0.1", browser.port, timeout=60)
        connection.request("GET", f"/ui/api/jobs/one/log/search?q={pattern}")
        assert connection.getresponse().status == 200
        until(searches)
        connection.close()
        until(lambda: not searches())


def searches() -> list[psutil.Process]:
    found = []
    for each in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if "log_search_worker" in " ".join(each.cmdline()):
                found.append(each)
    return found


def test_large_answers_are_packed(browser: Browser, finished: Callable[..., str]):
    finished("one", hyper={f"name-{number}": "x" * 400 for number in range(90)})
    plain = browser.get("/ui/api/jobs/one/setup")
    packed = browser.get("/ui/api/jobs/one/setup", accept_encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.body)) == plain.json
    assert "content-encoding" not in browser.get("/ui/api/session", accept_encoding="gzip").headers


def test_files_are_downloaded_as_attachments(browser: Browser, finished: Callable[..., str]):
    finished("one")
    artifacts = browser.get("/ui/api/jobs/one/setup").json["artifacts"]
    model = next(each["name"] for each in artifacts if each["name"].endswith("model.tar.gz"))
    reply = browser.get(f"/ui/api/jobs/one/artifact?name={quote(model)}")
    assert reply.body == b"a model"
    assert reply.headers["content-disposition"] == "attachment; filename*=UTF-8''model.tar.gz"
    assert reply.headers["content-type"] == "application/octet-stream"
    for name in ("../../etc/passwd", "/etc/passwd", HOSTILE):
        wrong = browser.get(f"/ui/api/jobs/one/artifact?name={quote(name)}")
        assert (wrong.status, wrong.code) == (404, "object_not_found")


def test_numbers_that_json_lacks_are_texts():
    value = {"a": [float("nan"), float("inf"), -float("inf"), 1.5], "b": "\ud800"}
    assert json.loads(to_json(value)) == {"a": ["NaN", "Infinity", "-Infinity", 1.5], "b": "?"}


def test_every_error_has_a_status_of_its_own():
    """500 is for what nobody has thought of."""
    kinds = dict.fromkeys(tree(TracksideError))
    unknown = [kind.__name__ for kind in kinds if status_of(made(kind)) == 500]
    assert unknown == ["TracksideError"]
    for kind in kinds:
        assert set(as_json(made(kind))["error"]) == {"code", "message", "advice"}


def test_a_comparison_comes_whole_or_job_by_job(browser: Browser, finished: Callable[..., str]):
    finished("one", {"loss": [(0, 1.0)]})
    finished("two", {"loss": [(0, 2.0)]})
    asked = {"jobs": ["one", "two"]}
    whole = browser.post("/ui/api/compare", asked).json
    assert whole["metrics"][0]["last"] == [1.0, 2.0]
    streamed = browser.post("/ui/api/compare", {**asked, "stream": True}).body.splitlines()
    parts = sorted((json.loads(line) for line in streamed), key=lambda part: part["at"])
    assert [part["job"] for part in parts] == whole["jobs"]
    assert [part["curves"][0][3] for part in parts] == [1.0, 2.0]
    rest = browser.post("/ui/api/compare/differences", asked).json
    assert rest == {"same": whole["same"], "rows": whole["rows"]}
    lost = browser.post("/ui/api/compare", {"jobs": ["none"], "stream": True})
    assert json.loads(lost.body.splitlines()[-1])["error"]["code"] == "job_not_found"


def test_a_frame_begins_with_its_name(browser: Browser, finished: Callable[..., str]):
    finished("one", {"loss": [(0, 1.0)]})
    (curve,) = browser.get("/ui/api/jobs/one/curves").json["curves"]
    body = {"curves": [{"job": "one", "id": curve["id"]}], "x": "step", "points": 10}
    data = browser.post("/ui/api/series", body).body
    name, size = struct.unpack_from("<4sI", data)
    assert name == b"TSB1"
    assert json.loads(data[8 : 8 + size])["items"][0]["job"] == "one"
