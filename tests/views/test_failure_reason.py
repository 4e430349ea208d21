"""Why a job failed, in short."""

import pytest

from trackside.views.job.failure_reason import in_short

REASON = (
    'AlgorithmError: {host}ExecuteUserScriptError:\nExitCode {code}\nErrorMessage "{said}"\n'
    '{extra}Command "python -- train.py", exit code: {code}'
)


@pytest.mark.parametrize(
    ("parts", "short"),
    [
        (
            {"said": "ValueError: no\nTraceback (most recent call last):\n  File x"},
            "ValueError: no (exit code 1)",
        ),
        ({"said": "one line"}, "one line (exit code 1)"),
        (
            {"said": "The script ended. Last line: train.py: error: x\nusage: train.py [-h]"},
            "The script ended. Last line: train.py: error: x (exit code 1)",
        ),
        ({"said": 'no such "thing"\nstep 9'}, 'no such "thing" (exit code 1)'),
        ({"said": "", "code": "3"}, "the script said nothing (exit code 3)"),
        ({"said": "x", "host": "algo-2: "}, "algo-2: x (exit code 1)"),
        (
            {"said": "Out of memory\nstep 10", "code": "-9", "extra": 'ExtraInfo "OutOf"\n'},
            "Out of memory (exit code -9)",
        ),
        (
            {"said": "", "code": "-9", "extra": 'ExtraInfo "OutOfMemory: x"\n'},
            "OutOfMemory: x (exit code -9)",
        ),
    ],
)
def test_a_failure_in_short_is_what_went_wrong_and_the_exit_code(parts: dict[str, str], short: str):
    assert in_short(REASON.format(**{"code": "1", "host": "", "extra": "", **parts})) == short


def test_a_reason_whose_end_is_cut_off_is_reported_in_short_too():
    said = "ValueError: no\n" + '  File "train.py", line 3\n' * 9
    whole = REASON.format(code="1", host="", extra="", said=said)
    assert in_short(f"{whole[:200]}, exit code: 1") == "ValueError: no (exit code 1)"


def test_pip_s_failure_is_reported_in_short():
    reason = REASON.replace("ExecuteUserScriptError", "InstallRequirementsError")
    said = "pip: No matching distribution found for x==1\nWARNING: slow"
    assert in_short(reason.format(code="1", host="", extra="", said=said)) == (
        "pip: No matching distribution found for x==1 (exit code 1)"
    )


def test_what_the_script_wrote_as_its_reason_is_reported_without_the_category():
    assert in_short("AlgorithmError: no data, for once, exit code: 7") == (
        "no data, for once (exit code 7)"
    )
    assert in_short("AlgorithmError: algo-2: killed\nepoch 1, exit code: -9") == (
        "algo-2: killed (exit code -9)"
    )


def test_other_reasons_are_reported_as_they_are():
    assert in_short("InternalServerError: the machine is gone") == (
        "InternalServerError: the machine is gone"
    )
