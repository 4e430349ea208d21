"""Requests that name a host of Amazon's, and where they go."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trackside.clients import redirect
from trackside.clients.environment import SITE
from trackside.clients.redirect import redirected

HERE = "http://127.0.0.1:7007"


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ("https://sts.us-west-2.amazonaws.com/", "/"),
        ("https://sts.cn-north-1.amazonaws.com.cn/", "/"),
        ("https://sagemaker.us-east-1.api.aws/x?y=1", "/x?y=1"),
        ("https://s3.us-west-2.amazonaws.com/bucket/key", "/bucket/key"),
        ("https://bucket.s3.us-west-2.amazonaws.com/a%20b", "/bucket/a%20b"),
        ("https://dotted.bucket.s3.amazonaws.com/k", "/dotted.bucket/k"),
    ],
)
def test_hosts_of_amazon_s_are_the_server(asked: str, path: str):
    assert redirected(asked, HERE) == HERE + path
    assert redirected(asked, "https://jobs.intranet/aws/") == f"https://jobs.intranet/aws{path}"


@pytest.mark.parametrize(
    "asked",
    [
        "http://minio:9000/bucket/key",
        "https://amazonaws.com.example.org/",
        "https://notamazonaws.com/",
    ],
)
def test_other_hosts_are_left_alone(asked: str):
    assert redirected(asked, HERE) == asked


@pytest.mark.parametrize("path", [redirect.__file__, SITE / "sitecustomize.py"])
def test_it_runs_under_old_interpreters(path: Path):
    ast.parse(Path(path).read_text(), feature_version=(3, 7))


def run(code: str, *folders: Path | str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
        capture_output=True,
        text=True,
    )


def test_starting_python_loads_nothing_slow():
    code = "import sys; print(*sys.modules)"
    loaded = set(run(code, SITE).stdout.split())
    assert "sitecustomize" in loaded
    added = loaded - set(run(code).stdout.split())  # Debian's Python has a sitecustomize, too
    assert added & {"botocore", "pathlib", "re", "trackside", "typing", "urllib"} == set()


def test_sessions_of_botocore_are_reported_as_soon_as_there_is_one():
    code = "from botocore import handlers; print(handlers.BUILTIN_HANDLERS[-1][1].__module__)"
    assert run(code, SITE).stdout.strip() == "trackside_redirect"


def test_the_next_sitecustomize_still_runs_and_only_once(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    watching = SITE.parents[1] / "capture" / "site"
    for order in ([SITE, watching, tmp_path], [watching, SITE, tmp_path]):
        assert run("pass", *order).stdout == "mine\n"


def test_our_smdebug_stands_before_an_installed_one(tmp_path: Path):
    (tmp_path / "smdebug").mkdir()
    (tmp_path / "smdebug" / "__init__.py").write_text("")
    code = "import smdebug; print(smdebug.__file__)"
    source = SITE.parents[2]
    assert "smdebug_alias" in run(code, SITE, tmp_path, source).stdout
