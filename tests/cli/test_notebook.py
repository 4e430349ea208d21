"""`%load_ext trackside` in a kernel without a server to talk to."""

import subprocess
import sys

from trackside import durable
from trackside.settings import Settings

CODE = "import trackside; trackside.load_ipython_extension(None)"
NOBODY = "http://127.0.0.1:9"


def test_a_notebook_without_a_server_is_told_how_to_start_one():
    address = Settings.load().layout.server.address
    address.parent.mkdir(parents=True)
    durable.write_json(address, {"url": NOBODY})
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        f"AWS clients of this notebook talk to {NOBODY}",
        "Nobody answers there yet: `trackside server` in a terminal starts this machine's.",
    ]
