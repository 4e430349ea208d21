import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.toolkit.conftest import TRAIN, Host, needs_root
from tests.wait import until
from trackside.errors import CommandFailed, ToolkitError
from trackside.supervisor.outcome import algorithm_error
from trackside.toolkit.failure import LONGEST, compose

TRACEBACK = """\
starting
Traceback (most recent call last):
  File "train.py", line 2, in <module>
    first()
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 9, in <module>
    second()
ValueError: the loss is not a number
"""


def test_the_four_lines_of_a_failed_script(host: Host):
    host.hyperparameters(lr="0.1")
    host.script("import sys; sys.exit(3)")
    assert host.train().code == 1
    command = f"{sys.executable} -- train.py --lr 0.1"
    assert re.fullmatch(
        r"ExecuteUserScriptError:\nExitCode 3\n"
        r'ErrorMessage "The script ended after [\d.]+ s without an error message"\n'
        rf'Command "{re.escape(command)}"',
        host.failure,
    )
    assert not (host.output / "success").exists()


def message_of(output: str, code: int = 1) -> str:
    text = compose(
        CommandFailed("ExecuteUserScriptError", code, output=output, command="python"), []
    )
    head = f'ExecuteUserScriptError:\nExitCode {code}\nErrorMessage "'
    assert text.startswith(head)
    assert text.endswith('"\nCommand "python"')
    return text.removeprefix(head).removesuffix('"\nCommand "python"')


def test_the_exception_comes_first_then_what_led_to_it_then_where_it_was_raised():
    assert message_of(TRACEBACK).splitlines() == [
        "ValueError: the loss is not a number, at train.py:9 in <module>: second(), "
        "while handling KeyError: 'a', at train.py:2 in <module>",
        "Traceback (most recent call last):",
        '  File "train.py", line 9, in <module>',
        "    second()",
    ]


def test_a_traceback_behind_a_progress_bar_is_found():
    assert message_of(f" 25%|#   |\r 50%|##  | {TRACEBACK}") == message_of(TRACEBACK)


def test_the_launchers_own_traceback_does_not_hide_the_scripts():
    output = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "train.py", line 4, in <module>\n'
        "[rank0]: something else\n"
        "[rank1]: RuntimeError: rank one\n"
        "Traceback (most recent call last):\n"
        '  File "run.py", line 9, in main\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "====\ntrain.py FAILED\n"
    )
    message = message_of(output)
    assert message.splitlines()[0] == "RuntimeError: rank one, at train.py:4 in <module>"
    assert "something else" not in message


@pytest.mark.parametrize("length", [10, 1000, 100_000])
def test_no_text_is_longer_than_the_service_shows(length: int):
    frames = "".join(f'  File "f.py", line {n}, in g\n    h()\n' for n in range(length))
    output = f"Traceback (most recent call last):\n{frames}ValueError: the essence"
    failed = CommandFailed("ExecuteUserScriptError", 1, output=output, command="c" * length)
    text = compose(failed, [])
    assert len(text) <= LONGEST
    assert text.startswith(
        'ExecuteUserScriptError:\nExitCode 1\nErrorMessage "ValueError: the essence'
    )
    assert f"line {length - 1}," in text
    assert text.endswith('"')
    assert len(compose(ToolkitError("m" * length), [])) <= LONGEST


def test_a_long_message_leaves_room_for_the_command():
    output = f"Traceback (most recent call last):\n  File 'x'\nValueError: {'long ' * 5000}"
    text = compose(CommandFailed("ExecuteUserScriptError", 1, output=output, command="python"), [])
    assert len(text) <= LONGEST
    assert text.endswith('Command "python"')
    sentence = text.splitlines()[2]
    assert sentence.startswith('ErrorMessage "ValueError: long long')
    assert sentence.endswith(' long…"')


def test_a_line_that_is_longer_than_all_that_is_kept_is_quoted_from_its_beginning(host: Host):
    host.script("import sys; sys.exit('out of luck: ' + 'word ' * 1000)")
    assert host.train().code == 1
    assert "Last line: out of luck: word word" in host.failure
    assert ' word…"\n' in host.failure


def test_a_line_that_is_longer_than_what_is_kept_of_the_output_is_quoted_from_a_word(host: Host):
    host.script("import sys; sys.exit('secretive ' * 90_000)")
    assert host.train().code == 1
    assert "Last line: …secretive secretive " in host.failure


def test_the_text_is_never_cut_again_by_who_shows_it():
    frames = "".join(f'  File "f.py", line {n}, in g\n    h()\n' for n in range(100))
    output = f"Traceback (most recent call last):\n{frames}ValueError: no"
    failed = CommandFailed("ExecuteUserScriptError", 137, output=output, command="python " * 500)
    text = compose(failed, [])
    assert text in algorithm_error(text, 137)


PIECES = [
    "Traceback (most recent call last):",
    '  File "/opt/ml/code/train.py", line 4, in main',
    "    loss = model(x)",
    "ValueError: " + "no " * 500,
    "[rank1]: Traceback (most recent call last):",
    "[rank1]: KeyError: 'x'",
    "During handling of the above exception, another exception occurred:",
    "Root Cause (first observed failure):",
    "  rank      : 1 (local_rank: 1)",
    "  exitcode  : -9 (pid: 5211)",
    "Fatal Python error: Segmentation fault",
    "Current thread 0x00007f (most recent call first):",
    "ERROR: No matching distribution found for x",
    "  ╰─> [9 lines of output]",
    "[Errno 28] No space left on device: '/no/such/place'",
    "\x1b[31mred\x1b[",
    "x" * 3000,
    "50%|## |\r",
    "",
]


def test_no_output_hides_the_reason():
    chosen = random.Random(7)
    for _ in range(400):
        output = "\n".join(chosen.choices(PIECES, k=chosen.randrange(30)))
        kind = chosen.choice(["ExecuteUserScriptError", "InstallRequirementsError"])
        code = chosen.choice([1, 2, 137, 255, -9, -11, -64, -65])
        failed = CommandFailed(kind, code, output=output, command="python", seconds=1.0)
        text = compose(failed, [])
        assert len(text) <= LONGEST
        assert text.startswith(f'{kind}:\nExitCode {code}\nErrorMessage "')
        assert text.splitlines()[2] != 'ErrorMessage "'
        assert text.endswith('Command "python"')
        assert "\x1b" not in text


def test_secrets_are_masked_before_a_cut_could_hide_their_beginning():
    secret = "sk-" + "0123456789" * 30
    output = f"{TRACEBACK.replace('the loss', f'{secret} ' * 20)}"
    failed = CommandFailed("ExecuteUserScriptError", 1, output=output, command=f"python {secret}")
    text = compose(failed, [secret])
    assert "sk-0" not in text
    assert "0123456789" not in text
    assert "ValueError: *** *** ***" in text


def test_an_unexpected_error_is_the_frameworks():
    try:
        raise RuntimeError("inside")
    except RuntimeError as error:
        text = compose(error, [])
    assert text.startswith("Framework Error: RuntimeError: inside\nTraceback")


def test_secrets_are_in_neither_log_nor_failure_text(host: Host):
    host.hyperparameters(
        api_key='"sk-123456789"',
        hub_token='"hf_abcdefgh"',
        max_tokens="100",
        url="https://u:pw@h/x",
    )
    host.script("import sys; raise ValueError('cannot use ' + ' '.join(sys.argv))")
    finished = host.train(MY_PASSWORD="correct horse")
    toolkit_lines = finished.log.partition("Traceback")[0] + host.failure
    for secret in ("sk-123456789", "hf_abcdefgh", "correct horse", "u:pw"):
        assert secret not in toolkit_lines
    assert "--api_key *** --hub_token *** --max_tokens 100" in host.failure


def test_the_scripts_own_reason_is_kept(host: Host):
    host.script(
        "import os, sys\n"
        "open(os.environ['SM_OUTPUT_DIR'] + '/failure', 'w').write('data is bad')\n"
        "sys.exit(1)\n"
    )
    assert host.train().code == 1
    assert host.failure == "data is bad"


def test_a_killed_script_without_evidence_is_not_called_out_of_memory(host: Host):
    host.script("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert host.train().code == 1
    assert re.search(
        r'ExitCode -9\nErrorMessage "The script was killed by SIGKILL after [\d.]+ s without an '
        r"error message\. (The kernel recorded no out-of-memory kill|Whether for lack of memory)",
        host.failure,
    )
    assert 'ExtraInfo "Process killed by SIGKILL (signal 9)"' in host.failure
    assert "OutOfMemory" not in host.failure


def test_a_crash_is_named_with_the_last_line(host: Host):
    host.script("import os\nprint('step 7', flush=True)\nprint('step 8', flush=True)\nos.abort()")
    with (host.base / "log").open("ab") as log:
        assert host.start(stdout=log, stderr=log).wait() == 1
    assert re.search(
        r'ErrorMessage "The script crashed with SIGABRT after [\d.]+ s: .* Last line: step 8\n',
        host.failure,
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.parametrize(
    ("write", "raised"),
    [
        ("open(path, 'wb').write(bytes(1 << 20))", "OSError: [Errno 28] No space"),
        ("__import__('torch').save(bytearray(1 << 20), path)", "RuntimeError: [enforce fail at"),
    ],
    ids=["plain", "torch"],
)
def test_a_full_disk_is_reported_before_what_it_led_to(host: Host, write: str, raised: str):
    model = host.base / "model"
    model.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", model], check=True)
    try:
        host.script(f"import os\npath = os.environ['SM_MODEL_DIR'] + '/model.pt'\n{write}\n")
        assert host.train().code == 1
    finally:
        subprocess.run(["umount", "-l", model], check=True)
    reported = host.failure.splitlines()
    assert reported[2].startswith(
        f'ErrorMessage "The disk of {str(model)!r} is full, 0 B of 65.5 kB'
    )
    assert reported[3].startswith(raised)
    assert f", at train.py:3 in <module>: {write}" in reported[3]


def test_a_disk_message_long_before_the_end_is_not_the_reason():
    output = "capture: [Errno 28] No space left on device\n" + "step\n" * 50 + TRACEBACK
    assert message_of(output).startswith("ValueError: the loss is not a number, at ")


def test_the_kernels_record_makes_it_out_of_memory(host: Host):
    needs_root()
    group = memory_group(host.base.parent.name)
    host.script("x = bytearray(512 * 1024 * 1024)\nfor i in range(0, len(x), 4096): x[i] = 1\n")
    enter = f"echo $$ > {group}/cgroup.procs && exec {' '.join(TRAIN)}"
    try:
        process = host.start(("sh", "-c", enter))
        assert process.wait() == 1
    finally:
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()
    assert 'ErrorMessage "Out of memory: the script was killed by the kernel (SIGK' in host.failure
    assert 'ExtraInfo "OutOfMemory: Process killed by SIGKILL (signal 9)"' in host.failure


def memory_group(name: str) -> Path:
    """A cgroup of 128 MiB without swap, of either version."""
    first = Path("/sys/fs/cgroup/memory")
    root = first if first.is_dir() else Path("/sys/fs/cgroup")
    limit = "memory.limit_in_bytes" if first.is_dir() else "memory.max"
    group = root / f"trackside-test-{os.getpid()}-{name}"
    try:
        group.mkdir()
        (group / limit).write_text(str(128 * 1024 * 1024))
    except OSError as refused:
        pytest.skip(f"no memory cgroup can be made here: {refused}")
    return group
