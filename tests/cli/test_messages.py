"""Warnings of the program beside a command's output: in words, and once."""

from tests.cli.conftest import Command
from trackside.files.permissions import make_folder
from trackside.settings import Settings


def test_a_warning_of_several_parts_is_reported_once(command: Command):
    make_folder(Settings.load().layout.index)  # no file can be opened there
    listed = command("jobs")
    assert listed.returncode == 0
    assert listed.stderr.count("cannot be used") == 1
    assert listed.stderr.startswith("Warning: the index ")
    unknown = command("show", "nosuch")  # looks for it, then for names that are like it
    assert unknown.returncode == 2
    assert unknown.stderr.count("cannot be used") == 1


def test_debugging_shows_the_same_with_its_origin(command: Command):
    Settings.load().layout.index.mkdir(parents=True)
    assert "WARNING:trackside.jobs.catalog:the index " in command("--debug", "jobs").stderr
