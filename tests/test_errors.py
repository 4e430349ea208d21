"""Errors are handed from process to process: by pools, by data loaders, by test runners."""

import ast
import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trackside
import trackside.api.keys
import trackside.capture.exceptions
import trackside.cli.access
import trackside.page.problems
from trackside.capture.modes import ModeKeys
from trackside.errors import JobElsewhere, JobFailed, TracksideError, Violation

SAMPLES: dict[str, Any] = {
    "violations": [Violation("epochs", -1, "Give a positive number.")],
    "known": ["s3://", "file://"],
    "exit_code": 3,
    "seconds": 30.0,
    "step": 4,
    "last_step": 3,
    "timestamp": 1.5,
    "mode": ModeKeys.EVAL,
    "is_repeated": True,
    "has_reductions": True,
    "end_of_rule": True,
}
"""Of arguments that are no text."""


def tree(root: type[TracksideError]) -> Iterator[type[TracksideError]]:
    yield root
    for kind in root.__subclasses__():
        if kind.__module__.startswith("trackside."):
            yield from tree(kind)


def made(kind: type[TracksideError]) -> TracksideError:
    """By its own constructor, with every argument given."""
    if not inspect.isfunction(kind.__init__):  # that of a builtin
        return kind("what is wrong", "and more")
    positional, named = [], {}
    for parameter in inspect.signature(kind).parameters.values():
        value = SAMPLES.get(parameter.name, f"the {parameter.name}")
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            positional.append(value)
    return kind(*positional, **named)


@pytest.mark.parametrize(
    "kind", dict.fromkeys(tree(TracksideError)), ids=lambda kind: kind.__name__
)
def test_every_error_reaches_another_process_whole(kind: type[TracksideError]):
    error = made(kind)
    error.add_note("seen by worker 3")
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is kind
    assert (str(twin), twin.args) == (str(error), error.args)
    assert repr(vars(twin)) == repr(vars(error))
    assert twin.code == error.code


def test_the_walk_meets_every_error_that_the_source_defines():
    """One in a module that is not imported above would not be walked."""
    met = {kind.__name__ for kind in tree(TracksideError)}
    defined = {"TracksideError"}
    bases = dict(class_bases(Path(trackside.__file__).parent))
    while more := {name for name in bases if bases[name] & defined} - defined:
        defined |= more
    assert defined == met


def class_bases(package: Path) -> Iterator[tuple[str, set[str]]]:
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef):
                yield node.name, {base.id for base in node.bases if isinstance(base, ast.Name)}


def test_what_an_error_knows_comes_along():
    failed = pickle.loads(pickle.dumps(JobFailed("a-job", "exit code 3", "its last lines")))
    assert (failed.name, failed.reason) == ("a-job", "exit code 3")
    elsewhere = pickle.loads(pickle.dumps(JobElsewhere("a-job", "gpu-2")))
    assert elsewhere.home == "gpu-2"
    assert "only that one can do this" in str(elsewhere)
