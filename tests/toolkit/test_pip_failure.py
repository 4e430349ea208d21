"""Why pip failed, told once: by what pip itself writes, and by the real pip."""

import pytest

from tests.toolkit.conftest import Host
from trackside.texts.process_failure import ProcessFailure
from trackside.toolkit.pip_failure import explain_pip


def failure_of(output: str, code: int = 1) -> ProcessFailure:
    return explain_pip(code, output, seconds=2.0, code_folder="/opt/ml/code")


def test_a_requirement_that_does_not_exist_is_reported_once(host: Host):
    host.script("print('never')")
    host.script("no-such-package-of-anybody==1.0\n", "requirements.txt")
    finished = host.train(PIP_NO_INDEX="1")
    assert finished.code == 1
    assert host.failure.startswith(
        "InstallRequirementsError:\nExitCode 1\n"
        'ErrorMessage "pip: No matching distribution found for no-such-package-of-anybody==1.0'
    )
    message = host.failure.partition("Command")[0]
    assert message.count("no-such-package-of-anybody") == 1
    assert host.failure.endswith('install -r requirements.txt"')


def test_a_requirement_that_is_not_one_is_reported(host: Host):
    host.script("print('never')")
    host.script("numpy=1\n", "requirements.txt")
    assert host.train(PIP_NO_INDEX="1").code == 1
    assert "ErrorMessage \"pip: Invalid requirement: 'numpy=1'" in host.failure


def test_versions_that_there_are_are_reported():
    versions = ", ".join(f"1.{n}" for n in range(90))
    output = (
        "Looking in indexes: https://me:secret@host/simple\n"
        "ERROR: Could not find a version that satisfies the requirement x==9 "
        f"(from versions: {versions})\n"
        "ERROR: No matching distribution found for x==9\n"
    )
    assert failure_of(output) == ProcessFailure(
        "pip: No matching distribution found for x==9; there are 1.85, 1.86, 1.87, 1.88, 1.89"
    )


def test_an_index_out_of_reach_is_reported():
    output = (
        "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by "
        "'NewConnectionError('Failed to establish a new connection: [Errno 111]')': /simple/x/\n"
        "ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n"
        "ERROR: No matching distribution found for x\n"
    )
    words = failure_of(output)
    assert words.sentence == (
        "pip: No matching distribution found for x; the package index could not be reached"
    )
    assert words.evidence[0].startswith("WARNING: Retrying")


BUILD = """\
Collecting flash (from -r requirements.txt (line 1))
  error: subprocess-exited-with-error
  × Building wheel for flash (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> [9 lines of output]
      running build_ext
{output}
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
  ERROR: Failed building wheel for flash
Failed to build flash
ERROR: Could not build wheels for flash, which is required to install pyproject.toml-based projects
"""


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (
            "      x.c:1:10: fatal error: Python.h: No such file or directory\n"
            "      error: command '/usr/bin/gcc' failed with exit code 1",
            "x.c:1:10: fatal error: Python.h: No such file or directory",
        ),
        (
            '        File "<string>", line 1, in <module>\n'
            "      ModuleNotFoundError: No module named 'torch'",
            "ModuleNotFoundError: No module named 'torch'",
        ),
    ],
)
def test_a_build_that_failed_is_reported_with_the_builder_s_message(output: str, why: str):
    words = failure_of(BUILD.format(output=output))
    assert words.sentence == f"pip could not build 'flash': {why}"
    assert "running build_ext" in "\n".join(words.evidence)


def test_metadata_that_cannot_be_made_names_what_was_being_collected():
    output = (
        "Collecting old-thing==0.1\n"
        "  error: subprocess-exited-with-error\n"
        "  × python setup.py egg_info did not run successfully.\n"
        "  ╰─> See above for output.\n"
        "error: metadata-generation-failed\n"
    )
    assert failure_of(output).sentence == (
        "pip could not build 'old-thing==0.1': python setup.py egg_info failed"
    )


def test_requirements_that_exclude_each_other_are_reported():
    output = (
        "ERROR: Cannot install a==1 and b==2 because these package versions have conflicting "
        "dependencies.\n\nThe conflict is caused by:\n    a 1 depends on c<2\n"
        "ERROR: ResolutionImpossible: for help visit https://pip.pypa.io\n"
    )
    words = failure_of(output)
    assert words.sentence.startswith("pip: Cannot install a==1 and b==2 because")
    assert words.evidence == ("The conflict is caused by:", "    a 1 depends on c<2")


def test_a_pip_that_was_killed_reports_it():
    assert failure_of("Collecting x\n", -9).sentence.startswith(
        "pip was killed by SIGKILL after 2.0 s"
    )


def test_a_pip_that_fails_without_an_error_line_is_quoted():
    assert (
        failure_of("something odd\n", 2).sentence
        == "pip ended after 2.0 s. Last line: something odd"
    )
