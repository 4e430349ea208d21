"""The exception that a process died of, found in real output of Python."""

import subprocess
import sys
from pathlib import Path

import pytest

import trackside
from trackside.texts.tracebacks import fault, first_failed_rank, raised


def said_by(folder: Path, *arguments: str, **files: str) -> list[str]:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, *arguments, "train.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    return done.stderr.splitlines()


def test_the_user_s_innermost_line_is_found_below_a_library_s(tmp_path: Path):
    script = "import json\n\ndef load(text):\n    return json.loads(text)\n\nload('{')\n"
    error = raised(said_by(tmp_path, train=script))
    assert error is not None
    assert error.message[0].startswith("json.decoder.JSONDecodeError: Expecting property name")
    frame = error.frame(str(tmp_path))
    assert frame is not None
    assert frame.place(str(tmp_path)) == "train.py:4 in load"
    assert frame.source == "return json.loads(text)"
    assert "json/decoder.py" in error.frames[-1].path


def test_a_module_of_the_user_s_is_named_by_its_path_in_the_source(tmp_path: Path):
    (tmp_path / "pkg" / "sub").mkdir(parents=True)
    (tmp_path / "pkg" / "sub" / "layers.py").write_text("import no_such_package\n")
    error = raised(said_by(tmp_path, train="import pkg.sub.layers\n"))
    assert error is not None
    frame = error.frame(str(tmp_path))
    assert frame is not None
    assert frame.place(str(tmp_path)) == "pkg/sub/layers.py:1 in <module>"


def test_a_file_that_does_not_compile_is_named(tmp_path: Path):
    error = raised(said_by(tmp_path, train="import broken\n", broken="x = (\n\n"))
    assert error is not None
    assert error.message[0].startswith("SyntaxError: ")
    frame = error.frame(str(tmp_path))
    assert frame is not None
    assert frame.place(str(tmp_path)) == "broken.py:1"


def test_an_entry_point_that_does_not_compile_is_named(tmp_path: Path):
    error = raised(["starting", *said_by(tmp_path, train="x = 1\ny = = 2\n")])
    assert error is not None
    assert error.message[0].startswith("SyntaxError: ")
    frame = error.frame(str(tmp_path))
    assert frame is not None
    assert frame.place(str(tmp_path)) == "train.py:2"


def test_a_trace_whose_beginning_is_lost_is_understood(tmp_path: Path):
    script = "def ping(n):\n    pong(n)\n\n\ndef pong(n):\n    ping(n)\n\n\nping(0)\n"
    lines = said_by(tmp_path, train=script)
    assert len(lines) > 1000
    error = raised(lines[-500:])
    assert error is not None
    assert error.message[0].startswith("RecursionError: ")
    frame = error.frame(str(tmp_path))
    assert frame is not None
    assert frame.source in ("pong(n)", "ping(n)")


def test_indented_output_is_no_trace():
    assert raised(["usage:", "  train.py [-h]", "train.py: error: unknown option --x"]) is None


@pytest.mark.parametrize(
    ("how", "link"), [("from cause", "caused by"), ("", "while handling")], ids=["from", "during"]
)
def test_what_led_to_an_exception_is_found(tmp_path: Path, how: str, link: str):
    script = (
        "def load():\n    return {}['x']\n\n"
        f"try:\n    load()\nexcept KeyError as cause:\n    raise RuntimeError('no data') {how}\n"
    )
    error = raised(said_by(tmp_path, train=script))
    assert error is not None
    assert error.message == ("RuntimeError: no data",)
    assert error.link == link
    assert error.cause is not None
    assert error.cause.message == ("KeyError: 'x'",)
    inner = error.cause.frame(str(tmp_path))
    assert inner is not None
    assert inner.place(str(tmp_path)) == "train.py:2 in load"


def test_an_exception_that_was_only_printed_before_is_no_cause(tmp_path: Path):
    script = (
        "import traceback\n"
        "try:\n    {}['x']\nexcept KeyError:\n    traceback.print_exc()\n"
        "raise RuntimeError('another matter')\n"
    )
    error = raised(said_by(tmp_path, train=script))
    assert error is not None
    assert error.message == ("RuntimeError: another matter",)
    assert error.cause is None


def test_of_a_group_an_exception_within_it_is_found(tmp_path: Path):
    script = (
        "def one():\n    raise ValueError('a')\n"
        "try:\n    one()\nexcept ValueError as error:\n    found = error\n"
        "raise ExceptionGroup('one', [found])\n"
    )
    error = raised(said_by(tmp_path, train=script))
    assert error is not None
    assert error.message[0] == "ValueError: a"
    assert error.frames[-1].function == "one"


def test_what_faulthandler_wrote_has_the_user_s_line(tmp_path: Path):
    script = "import ctypes\n\ndef read():\n    ctypes.string_at(0)\n\nread()\n"
    error = fault(said_by(tmp_path, "-X", "faulthandler", train=script))
    assert error is not None
    frame = error.frame(str(tmp_path))
    assert frame is not None
    assert frame.place(str(tmp_path)) == "train.py:4 in read"


@pytest.mark.parametrize("module", ["texts/tracebacks.py", "capture/model/functional_losses.py"])
def test_frames_of_ours_are_not_the_user_s(module: str):
    ours = Path(trackside.__file__).parent / module
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 3, in main',
        "    loss = model(x)",
        f'  File "{ours}", line 9, in wrapped',
        "    return call(x)",
        "ValueError: no",
    ]
    error = raised(lines)
    assert error is not None
    frame = error.frame("/opt/ml/code")
    assert frame is not None
    assert frame.place("/opt/ml/code") == "train.py:3 in main"


@pytest.mark.parametrize(
    "path", ["/opt/conda/lib/python3.11/site-packages/torch/nn/linear.py", "<frozen runpy>"]
)
def test_without_a_line_of_the_user_s_the_innermost_is_taken(path: str):
    lines = ["Traceback (most recent call last):", f'  File "{path}", line 3, in f', "E: no"]
    error = raised(lines)
    assert error is not None
    frame = error.frame("/opt/ml/code")
    assert frame is not None
    shown = path.rpartition("site-packages/")[2]
    assert frame.place("/opt/ml/code") == f"{shown}:3 in f"


TORCHRUN = """\
rank 0
rank 1
W1117 05:40:41.420000 5064 torch/distributed/elastic/multiprocessing/api.py:1028] Sending
Traceback (most recent call last):
  File "run.py", line 9, in main
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
=======================================================
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 18093)  (SIGTERM)
-------------------------------------------------------
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 18094)  (SIGKILL)
  error_file: <N/A>
=======================================================
"""


def test_torchrun_s_report_names_the_rank_that_failed_first():
    lines = TORCHRUN.splitlines()
    assert raised(lines) is None
    rank = first_failed_rank(lines)
    assert rank is not None
    assert (rank.number, rank.code, rank.before) == (1, -9, ("rank 0", "rank 1"))
    assert first_failed_rank(lines[:-4]) is None
