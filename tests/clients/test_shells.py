"""The lines that shells evaluate, by the shells themselves."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.aws_clients import missing_clients
from trackside.clients.environment import SHELLS, Change, GiveBack, Keep, Set, Unset

HARD = 'it\'s "so" $HOME `x` \\n \\\\ ; é\nnext'
PLAIN = [(["bash"], "posix"), (["dash"], "posix"), (["zsh"], "posix"), (["fish"], "fish")]
EXPORTING = [([*program, "-a"], "posix") for program, language in PLAIN if language == "posix"]
"""All that is assigned in these is exported."""


def every(shells: list[tuple[list[str], str]]) -> pytest.MarkDecorator:
    names = [" ".join(program) for program, _ in shells]
    return pytest.mark.parametrize(("program", "language"), shells, ids=names)


def seen_after(program: list[str], *lines: str, **environ: str) -> list[dict[str, str]]:
    """What a program finds that is started after each of these pieces was evaluated."""
    if shutil.which(program[0]) is None:
        missing_clients(f"{program[0]} is not installed")
    shown = subprocess.run(
        [*program, "-c", "".join(f"{piece}\nenv -0; printf '\\001'\n" for piece in lines)],
        env={
            **{name: os.environ[name] for name in ("PATH", "HOME")},
            "LC_ALL": "C.UTF-8",
            **environ,
        },
        capture_output=True,
        check=True,
    )
    return [
        dict(entry.split("=", 1) for entry in part.split("\0") if "=" in entry)
        for part in shown.stdout.decode().split("\1")[:-1]
    ]


@every(PLAIN)
def test_a_shell_sets_exactly_the_value_and_unsets(program: list[str], language: str):
    changes: list[Change] = [Set("ADDED", HARD), Unset("GONE"), Set("A_PATH", "/a:/b")]
    [environment] = seen_after(program, SHELLS[language](changes), GONE="x")
    assert environment["ADDED"] == HARD
    assert environment["A_PATH"] == "/a:/b"
    assert "GONE" not in environment


@every(PLAIN + EXPORTING)
def test_saved_values_are_not_exported_and_are_restored(program, language: str):
    write = SHELLS[language]
    now, again, after = seen_after(
        program,
        write([Keep("MINE"), Set("MINE", "theirs")]),
        write([Set("MINE", "theirs")]),
        write([GiveBack("MINE"), GiveBack("NEVER_KEPT")]),
        MINE=HARD,
        NEVER_KEPT="x",
        _trackside_MINE="of a shell above that exported it",
    )
    assert now["MINE"] == again["MINE"] == "theirs"
    assert HARD not in now.values()
    assert after["MINE"] == HARD
    assert "NEVER_KEPT" not in after
    assert not [name for each in (now, again, after) for name in each if "trackside" in name]


@every(PLAIN)
def test_the_command_leaves_no_key_of_the_user_s_in_the_environment(program, language: str):
    trackside = f"{sys.executable} -m trackside.cli env --shell {language}"
    evaluate = {"posix": 'eval "$({})"', "fish": "{} | source"}[language]
    keys = {
        "AWS_ACCESS_KEY_ID": "AKIA-mine",
        "AWS_SECRET_ACCESS_KEY": "secret-mine",
        "AWS_SESSION_TOKEN": "token-mine",
    }
    now, again, after = seen_after(
        program,
        evaluate.format(trackside),
        evaluate.format(trackside),
        evaluate.format(f"{trackside} --reset"),
        TRACKSIDE_HOME=os.environ["TRACKSIDE_HOME"],
        AWS_PROFILE="work",
        **keys,
    )
    for each in (now, again):
        assert each["AWS_ENDPOINT_URL"]
        assert not [name for name, value in each.items() if "mine" in value]
    assert {name: after[name] for name in keys} == keys
    assert after["AWS_PROFILE"] == "work"
    assert "AWS_ENDPOINT_URL" not in after
