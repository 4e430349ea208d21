"""What somebody at a terminal is spared of the toolkit's lines, and nothing of the script's."""

from collections.abc import Sequence

from trackside.jobs.logs import LogLine
from trackside.jobs.toolkit_lines import ToolkitLines, of_script

START = "2026-11-16 09:25:35,758 trackside-toolkit INFO     Invoking user script\n"
FAILURE = "2026-11-16 09:25:40,867 trackside-toolkit ERROR    Reporting training FAILURE\n"


def shown(parts: Sequence[str], host: str = "algo-1", folding: ToolkitLines | None = None) -> str:
    folding = folding or ToolkitLines()
    lines = [LogLine(host, 1, 0, 0.0, part.encode()) for part in parts]
    return "".join(line.data.decode() for line in lines if folding.is_shown(line))


def test_the_variables_of_the_start_are_left_out():
    log = [START, "  SM_HOSTS=[]\n", "  SM_USER_ARGS=[]\n", "  python -- train.py\n", "epoch 0\n"]
    assert shown(log) == f"{START}  python -- train.py\nepoch 0\n"


def test_a_script_that_writes_such_lines_itself_is_heard():
    log = [START, "  SM_HOSTS=[]\n", "  python -- train.py\n", "  SM_HOSTS=mine\n", "epoch 0\n"]
    assert shown(log).endswith("  SM_HOSTS=mine\nepoch 0\n")


def test_a_failure_is_not_told_twice():
    report = ["ExecuteUserScriptError:\n", "ExitCode 1\n", 'ErrorMessage "ValueError: no\n', 'x"\n']
    log = ["ValueError: no\n", FAILURE, *report, 'Command "python -- train.py"\n', "from a child\n"]
    assert shown(log) == f"ValueError: no\n{FAILURE}from a child\n"


def test_pip_s_failure_is_not_told_twice():
    report = ["InstallRequirementsError:\n", "ExitCode 1\n", 'ErrorMessage "pip: no"\n']
    log = ["ERROR: no\n", FAILURE, *report, 'Command "python -m pip"\n']
    assert shown(log) == f"ERROR: no\n{FAILURE}"


def test_a_failure_that_the_log_has_not_told_is_shown():
    log = [FAILURE, "Framework Error: no such channel\n", "Traceback\n"]
    assert shown(log) == "".join(log)


def test_parts_of_one_line_go_together():
    log = [START, "  SM_HPS=", '{"a":1}', "\n", "  python -- ", "train.py\n"]
    assert shown(log) == f"{START}  python -- train.py\n"


def test_hosts_are_distinguished():
    folding = ToolkitLines()
    assert shown([START], "algo-1", folding) == START
    assert shown(["  SM_X=1\n"], "algo-2", folding) == "  SM_X=1\n"
    assert shown(["  SM_X=1\n"], "algo-1", folding) == ""


def test_the_end_of_a_log_is_the_script_s():
    start = [START[:-1], "  SM_HOSTS=[]", "  python -- train.py"]
    report = [FAILURE[:-1], "ExecuteUserScriptError:", "ExitCode 1", 'Command "python -- train.py"']
    whole = [*start, "epoch 0", "ValueError: no", *report]
    assert of_script(whole) == [
        START[:-1],
        "  python -- train.py",
        "epoch 0",
        "ValueError: no",
        FAILURE[:-1],
    ]
    assert of_script(whole[1:]) == of_script(whole)[1:]  # cut off among the variables
