"""What `import trackside` offers, and how little it loads."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import trackside


@pytest.mark.parametrize("name", trackside.__all__)
def test_every_public_name_is_there(name: str):
    assert getattr(trackside, name) is not None
    assert name in dir(trackside)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(trackside.__file__).read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.asname
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported | {"__version__"} == set(trackside.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Session'"):
        trackside.Session  # noqa: B018


def test_importing_the_package_loads_none_of_its_parts():
    code = "import sys, trackside; print(*[n for n in sys.modules if n.startswith('trackside.')])"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "\n"


@pytest.mark.parametrize(
    "statement",
    [
        "from trackside.pytorch import PyTorch",
        "from trackside.estimator import Estimator",
        "from trackside.inputs import TrainingInput, ShuffleConfig",
        "from trackside.debugger import Rule, ProfilerRule, rule_configs, CollectionConfig, "
        "DebuggerHookConfig, ProfilerConfig, TensorBoardOutputConfig",
    ],
)
def test_sagemaker_s_modules_have_ours_beside_them(statement: str):
    """So that a script only needs another word in its imports."""
    found: dict[str, object] = {}
    exec(statement, found)
    names = [name.strip() for name in statement.partition("import")[2].split(",")]
    assert all(found[name] is getattr(trackside, name) for name in names)
