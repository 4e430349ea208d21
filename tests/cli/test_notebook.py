"""`%load_ext trackside` in a kernel without a server to talk to."""

import subprocess
import sys

from trackside.files import durable
from trackside.settings import Settings

CODE = "import trackside; trackside.load_ipython_extension(None)"
NOBODY = "http://127.0.0.1:9"


def test_a_notebook_without_a_server_is_reported_how_to_start_one():
    address = Settings.load().layout.server.address
    address.parent.mkdir(parents=True)
    durable.write_json(address, {"url": NOBODY})
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        f"AWS clients of this notebook talk to {NOBODY}",
        "Nobody answers there yet: `trackside server` in a terminal starts this machine's.",
    ]


KEYS = """
import os, subprocess, sys
import trackside
own = dict(os.environ)
trackside.load_ipython_extension(None)
child = subprocess.run([sys.executable, "-c", "import os; print(dict(os.environ))"],
                       capture_output=True, text=True).stdout
assert os.environ["AWS_SECRET_ACCESS_KEY"] != own["AWS_SECRET_ACCESS_KEY"]
assert "mine" not in child, child
trackside.unload_ipython_extension(None)
changed = {name for name in {*own, *os.environ} if own.get(name) != os.environ.get(name)}
assert not changed, changed
"""


def test_programs_that_a_notebook_starts_do_not_find_the_user_s_own_keys(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, f"mine, {name}")
    done = subprocess.run([sys.executable, "-c", KEYS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
