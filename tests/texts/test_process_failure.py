"""What is output of a process that ended badly: a sentence that stands alone, then the evidence."""

import signal

import pytest

from trackside.texts.process_failure import End, ProcessFailure, explain_end

TRACEBACK = """\
epoch 1
Traceback (most recent call last):
  File "/opt/ml/code/train.py", line 41, in <module>
    main()
    ~~~~^^
  File "/opt/ml/code/train.py", line 30, in main
    loss = model(x)
           ^^^^^^^^
  File "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward
    return F.linear(input, self.weight, self.bias)
"""


def test_an_exception_is_reported_with_the_user_s_own_line():
    failure = explain_end(
        End(code=1, output=f"{TRACEBACK}RuntimeError: shapes cannot be multiplied\n")
    )
    assert failure.sentence == (
        "RuntimeError: shapes cannot be multiplied, at train.py:30 in main: loss = model(x)"
    )
    text = failure.fitted(2000)
    assert "torch/nn/modules/linear.py" in text
    assert "^^^" not in text


def test_a_message_of_several_lines_is_reported_in_one():
    output = (
        f"{TRACEBACK}RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key: a.b\n"
    )
    failure = explain_end(End(code=1, output=output))
    assert failure.sentence.startswith(
        "RuntimeError: Error(s) in loading state_dict for Net, at train.py:30 in main:"
    )
    assert failure.evidence[0] == "\tMissing key: a.b"


def test_what_was_raised_is_not_repeated_as_code():
    output = (
        "Traceback (most recent call last):\n"
        '  File "/opt/ml/code/train.py", line 2, in load\n    return open(path)\n'
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/x.csv'\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/ml/code/train.py", line 8, in main\n'
        '    raise RuntimeError("no data") from e\n'
        "RuntimeError: no data\n"
    )
    assert explain_end(End(code=1, output=output)).sentence == (
        "RuntimeError: no data, at train.py:8 in main, caused by FileNotFoundError: [Errno 2] No "
        "such file or directory: '/data/x.csv', at train.py:2 in load"
    )


@pytest.mark.parametrize("word", ["row-17, ", "\x1b[31mrot\x1b[0m ", "grün 😀 "])
def test_a_long_message_keeps_type_beginning_and_place(word: str):
    output = f"{TRACEBACK}ValueError: bad rows: {word * 2000}\n"
    text = explain_end(End(code=1, output=output)).fitted(800)
    sentence = text.splitlines()[0]
    assert len(text) <= 800
    assert sentence.startswith("ValueError: bad rows: ")
    assert sentence.endswith("…, at train.py:30 in main: loss = model(x)")
    last = sentence.partition("…")[0].split()[-1]
    assert last in {"row-17,", "rot", "grün", "😀"}
    assert "\x1b" not in text


def test_evidence_is_cut_between_frames():
    frames = "".join(
        f'  File "/opt/ml/code/f.py", line {n}, in g\n    call({n})\n' for n in range(99)
    )
    output = f"Traceback (most recent call last):\n{frames}ValueError: deep\n"
    lines = explain_end(End(code=1, output=output)).fitted(500).splitlines()
    assert lines[0] == "ValueError: deep, at f.py:98 in g: call(98)"
    assert lines[1] == "…"
    assert lines[2].startswith("  File ")
    assert lines[-1] == "    call(98)"


@pytest.mark.parametrize(
    ("out_of_memory", "reported"),
    [
        (
            True,
            "Out of memory: the script was killed by the kernel (SIGKILL) after 2 min 5 s. A "
            "smaller batch or fewer workers need less. Last line: epoch 2",
        ),
        (
            False,
            "The script was killed by SIGKILL after 2 min 5 s. The kernel recorded no "
            "out-of-memory kill. Last line: epoch 2",
        ),
        (
            None,
            "The script was killed by SIGKILL after 2 min 5 s. Whether for lack of memory is not "
            "recorded on this machine. Last line: epoch 2",
        ),
    ],
)
def test_a_kill_is_reported_with_what_the_kernel_recorded(
    out_of_memory: bool | None, reported: str
):
    end = End(code=-9, output="epoch 1\nepoch 2\n", seconds=125, out_of_memory=out_of_memory)
    failure = explain_end(end)
    assert failure.sentence.startswith(reported)
    assert failure.sentence.endswith("Last line: epoch 2")
    assert failure.evidence == ("epoch 1",)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGBUS", "SIGILL", "SIGABRT", "SIGFPE"])
def test_a_crash_is_named_and_explained(name: str):
    failure = explain_end(End(code=-getattr(signal, name), seconds=0.34))
    assert failure.sentence.startswith(
        f"The script crashed with {name} after 0.3 s without an error message"
    )
    assert failure.sentence.endswith("With PYTHONFAULTHANDLER=1 Python shows where")


def test_a_crash_that_faulthandler_saw_is_reported_with_its_place():
    output = (
        "Fatal Python error: Segmentation fault\n\n"
        "Current thread 0x00007f (most recent call first):\n"
        '  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at\n'
        '  File "/opt/ml/code/train.py", line 2 in main\n'
    )
    assert explain_end(End(code=-11, output=output)).sentence == (
        "The script crashed with SIGSEGV, at train.py:2 in main: native code used memory that is "
        "not its own"
    )


def test_an_exit_without_output():
    assert explain_end(End(code=3, seconds=0.12)) == ProcessFailure(
        "The script ended after 0.1 s without an error message"
    )
    assert explain_end(End(code=3, output="\n====\n----\n")).sentence.endswith("an error message")


def test_without_an_exception_the_last_line_is_reported():
    failure = explain_end(End(code=2, output="usage: train.py\nstep 7\n"))
    assert failure == ProcessFailure("The script ended. Last line: step 7", ("usage: train.py",))


@pytest.mark.parametrize(
    "refusal",
    ["train.py: error: argument --lr: invalid float value: 'x'", "Error: No such option: --x"],
)
def test_arguments_that_the_script_refuses_are_the_reason(refusal: str):
    output = f"loading\nusage: train.py [-h]\n                [--lr LR]\n{refusal}\n"
    failure = explain_end(End(code=2, output=output, seconds=0.3))
    assert failure == ProcessFailure(refusal, ("usage: train.py [-h]", "                [--lr LR]"))
    assert explain_end(End(code=1, output=output)).sentence.startswith("The script ended")


def test_the_exit_code_of_a_shell_is_explained():
    failure = explain_end(End(code=137, output="Killed\n", out_of_memory=True))
    assert failure.sentence == (
        "Out of memory: the kernel killed a process of the script. The script ended with the exit "
        "code of a SIGKILL. Last line: Killed"
    )
    assert "SIG" not in explain_end(End(code=255, output="x")).sentence


def test_a_worker_killed_for_memory_is_reported_before_what_it_led_to():
    output = f"{TRACEBACK}RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.\n"
    failure = explain_end(End(code=1, output=output, out_of_memory=True))
    assert failure.sentence.startswith(
        "Out of memory: the kernel killed a process of the script. RuntimeError: DataLoader worker"
    )


@pytest.mark.parametrize(
    ("code", "reported"),
    [
        ("-9", "Rank 1 was killed by SIGKILL. The kernel recorded no out-of-memory kill. Last"),
        ("-11", "Rank 1 crashed with SIGSEGV: native code"),
        ("3", "Rank 1 ended with exit code 3. Last line: step 7"),
    ],
)
def test_the_rank_that_torchrun_names_is_reported(code: str, reported: str):
    output = (
        "step 7\n"
        "E1117 05:31:48.422000 5064 torch/distributed/elastic/multiprocessing/api.py:1002] failed\n"
        "Traceback (most recent call last):\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
        "Root Cause (first observed failure):\n"
        f"[0]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : {code} (pid: 5211)\n"
    )
    failure = explain_end(End(code=1, output=output, out_of_memory=False))
    assert failure.sentence.startswith(reported)
    assert failure.sentence.endswith("Last line: step 7")


def test_the_cause_comes_first_and_the_process_s_own_message_after_it():
    failure = ProcessFailure("RuntimeError: x", ("frame",)).because("The disk is full")
    assert failure.fitted(1000) == "The disk is full\nRuntimeError: x\nframe"
    assert failure.fitted(35) == "The disk is full\nRuntimeError: x"
