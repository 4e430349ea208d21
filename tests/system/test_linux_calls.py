"""System calls, made by processes of their own: what they give up stays given up."""

import subprocess
import sys

import pytest

from trackside.system import linux_calls

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="they are Linux's")


def said_by(code: str) -> str:
    source = (
        f"import os, resource, signal, time\nfrom trackside.system.linux_calls import *\n{code}"
    )
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_privileges_that_were_given_up_do_not_come_back():
    code = (
        "give_up_privileges()\n"
        "print(capabilities())\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "except ValueError as error:\n    print(error)\n"
        "print([line.split()[1] for line in open('/proc/self/status')"
        " if line.startswith('NoNewPrivs')])"
    )
    assert said_by(code).splitlines() == ["0", "not allowed to raise maximum limit", "['1']"]


def test_a_call_that_is_refused_names_itself_and_the_path():
    with pytest.raises(OSError, match="mount: ") as refused:
        linux_calls.mount("nothing", "/no/such/place", "tmpfs")
    assert refused.value.filename == "/no/such/place"


def test_a_process_may_request_a_signal_at_its_parent_s_end():
    code = (
        "reading, writing = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    if os.fork() == 0:\n"
        "        end = lambda *_: (os.write(writing, b'told'), os._exit(0))\n"
        "        signal.signal(signal.SIGTERM, end)\n"
        "        die_with(os.getppid(), signal.SIGTERM); os.write(writing, b'r')\n"
        "        time.sleep(60)\n"
        "    os.read(reading, 1); os._exit(0)\n"
        "os.wait(); print(os.read(reading, 10).decode())"
    )
    assert said_by(code) == "told"
