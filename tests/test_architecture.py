"""The import arrows, and the few files that may read the environment (see ARCHITECTURE.md)."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, cast

import pytest

import trackside

SOURCE = Path(trackside.__file__).parent
ROOT = "root"

FACES = "faces"
FACE_NAMES = {"debugger.py", "estimator.py", "inputs.py", "pytorch.py"}
"""Modules below the root that are named as SageMaker's are; nothing of ours imports them."""

BASE = "base"
BASE_NAMES = {"errors.py", "quick_dataclass.py"}
"""Modules below the root that every folder may import."""

SHARED = {BASE, ROOT, "texts", "files", "system", "records"}
"""What every folder builds on; among themselves they import only what is listed before them."""

MAY_IMPORT = {
    BASE: {"texts"},
    "texts": {BASE},
    "files": {BASE, "texts"},
    "system": {BASE, "texts", "files"},
    "records": {BASE, "texts", "files", "system"},
    ROOT: SHARED,
    FACES: {"sdk"},
    "storage": SHARED,
    "capture": SHARED | {"check", "storage", "curves"},
    "rules": SHARED | {"check", "coordination", "storage", "capture", "curves"},
    "smdebug_alias": {"capture", "rules"},
    "toolkit": SHARED,
    "placement": SHARED,
    "containers": SHARED,
    "curves": SHARED | {"storage"},
    "views": SHARED | {"check", "coordination", "storage", "jobs", "curves", "capture", "rules"},
    "page": SHARED | {"storage", "jobs", "curves", "capture", "rules", "views"},
    "api": SHARED
    | {"containers", "coordination", "storage", "jobs", "curves", "rules", "views", "page"},
    "coordination": SHARED | {"storage"},
    "supervisor": SHARED | {"containers", "coordination", "storage", "curves"},
    "jobs": SHARED | {"containers", "coordination", "storage", "placement", "curves"},
    "remote": SHARED | {"storage", "jobs"},
    "clients": SHARED,
    "inside": SHARED | {"coordination", "jobs", "sdk", "curves", "capture", "rules"},
    "sdk": SHARED | {"containers", "storage", "jobs", "remote", "curves", "rules"},
    "check": SHARED,
    "cli": SHARED
    | {
        "check",
        "coordination",
        "storage",
        "placement",
        "containers",
        "jobs",
        "clients",
        "api",
        "remote",
        "sdk",
        "supervisor",
        "capture",
        "curves",
        "rules",
        "views",
        "page",
        "smdebug_alias",
    },
}

RULES_MAY_IMPORT = {
    "saved": set[str](),
    "tensor": {"saved"},
    "checkup": {"saved"},
    "profiler": {"saved"},
    "custom": {"saved"},
    "action": set[str](),
    "evaluation": {"saved", "custom", "action"},
    "report": {"saved", "tensor", "profiler", "checkup"},
}

MAY_READ_ENVIRONMENT = {
    "settings.py",
    "storage/credentials.py",
    "capture/environment.py",
    "capture/site/sitecustomize.py",  # in any Python of an image, before the package is found
    "cli/notebook.py",
    "clients/local_session.py",
    "clients/redirect.py",
    "inside/process_context.py",
    "placement/kubernetes_host.py",  # the first process of a pod
    "placement/ray_host.py",  # in a process of Ray's, on a node
    "toolkit/environment.py",
    "supervisor/leave_group.py",
    "supervisor/program.py",
}


def modules() -> Iterator[tuple[Path, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        below = path.relative_to(SOURCE)
        if below == Path("__init__.py"):
            continue  # imports for type checkers only; test_public_names looks at what it loads
        yield path, below.parts[0] if len(below.parts) > 1 else kind_of_root_module(below.name)


def kind_of_root_module(name: str) -> str:
    if name in FACE_NAMES:
        return FACES
    return BASE if name in BASE_NAMES else ROOT


def imported_folders(tree: ast.AST) -> Iterator[str]:
    for parts in imports_of_ours(tree):
        if (SOURCE / parts[1]).is_dir():
            yield parts[1]
        else:
            yield kind_of_root_module(f"{parts[1]}.py")


def imports_of_ours(tree: ast.AST) -> Iterator[list[str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "trackside" and len(parts) > 1:
                yield parts


def test_every_folder_imports_only_what_the_map_allows():
    wrong = [
        f"{path.relative_to(SOURCE)} imports {imported}"
        for path, folder in modules()
        for imported in imported_folders(ast.parse(path.read_text()))
        if imported not in MAY_IMPORT[folder] | {folder}
    ]
    assert wrong == []


def test_the_folders_of_rules_import_only_what_the_map_allows():
    wrong = [
        f"{path.relative_to(SOURCE)} imports {'.'.join(parts)}"
        for path in (SOURCE / "rules").glob("*/*.py")
        for parts in imports_of_ours(ast.parse(path.read_text()))
        if parts[1] == "rules" and (SOURCE / "rules" / parts[2]).is_dir()
        if parts[2] not in RULES_MAY_IMPORT[path.parent.name] | {path.parent.name}
    ]
    assert wrong == []


def test_the_folders_of_rules_form_no_cycle():
    assert list(TopologicalSorter(RULES_MAY_IMPORT).static_order())


def test_no_module_imports_itself_through_others():
    """When it is imported; what a function imports, it imports when it is called."""
    known = {module_name(path): path for path in SOURCE.rglob("*.py")}
    graph = {
        name: {
            target
            for parts in imports_of_ours(at_import(ast.parse(path.read_text())))
            for target in [".".join(parts), ".".join(parts[:-1])]
            if target in known and target != name
        }
        for name, path in known.items()
    }
    assert list(TopologicalSorter(graph).static_order())


def module_name(path: Path) -> str:
    parts = [SOURCE.name, *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def at_import(tree: ast.Module) -> ast.Module:
    """Without functions, and what only type checkers read."""
    return cast(ast.Module, _AtImport().visit(tree))


class _AtImport(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        return None

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        return None

    def visit_If(self, node: ast.If) -> Any:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
        return self.generic_visit(node)


def test_ray_is_imported_only_where_it_may_end_the_process():
    """In the engine's child process, and on Ray's own nodes."""
    named = {
        path.relative_to(SOURCE).as_posix()
        for path, _ in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if "ray" in (each.partition(".")[0] for each in names_imported(node))
    }
    assert named == {"placement/ray_engine.py", "placement/ray_host.py"}


def test_the_client_of_kubernetes_is_imported_only_in_a_child_process():
    named = {
        path.relative_to(SOURCE).as_posix()
        for path, _ in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if "kubernetes" in (each.partition(".")[0] for each in names_imported(node))
    }
    assert named == {"placement/kubernetes_engine.py"}


def names_imported(node: ast.AST) -> Iterator[str]:
    """Also those given to `import_module`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield node.module or ""
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "import_module":
        yield from (str(each.value) for each in node.args if isinstance(each, ast.Constant))


def test_only_a_few_files_read_the_environment():
    readers = {
        path.relative_to(SOURCE).as_posix()
        for path, _ in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
        if isinstance(node.value, ast.Name) and node.value.id == "os"
    }
    assert readers - MAY_READ_ENVIRONMENT == set()


def test_only_coordination_and_supervisors_know_where_a_host_keeps_its_files():
    others = [
        path.relative_to(SOURCE).as_posix()
        for path, folder in modules()
        if folder not in {"coordination", "supervisor"}
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr == "host"
    ]
    assert others == []


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in output.stdout.split()}


HEAVY = {
    "_hashlib",
    "obstore",
    "isal",
    "rich",
    "click",
    "psutil",
    "sqlite3",
    "asyncio",
    "torch",
    "numpy",
}


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import trackside", set()),
        ("import trackside.toolkit.__main__", set()),
        ("import trackside.supervisor.program", set()),
        ("import trackside.jobs.jobs", {"sqlite3"}),
        ("import trackside.remote.remote_jobs", {"_hashlib", "sqlite3"}),
        ("import trackside.sdk.estimator", set()),
        ("import trackside.inside.api", set()),
        ("import trackside.curves.event_file", set()),
        ("import trackside.capture", set()),
        ("import trackside.capture.trial", {"numpy"}),
    ],
)
def test_importing_a_part_loads_no_more_than_it_needs(statement: str, allowed: set[str]):
    assert loaded_by(statement) & HEAVY - allowed == set()


def test_a_run_loads_the_options_of_no_other_engine(tmp_path: Path):
    (tmp_path / "train.py").touch()
    words = ["run", str(tmp_path / "train.py"), "--slurm", "--qos=high", "--on", "nowhere"]
    statement = (
        "import click; from trackside.cli.main import main\n"
        f"try: main({words!r}, standalone_mode=False)\n"
        "except click.ClickException: pass\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {statement}"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TRACKSIDE_HOME": str(tmp_path / "home")},
    )
    options = {name for name in done.stdout.split() if name.endswith("_options")}
    engines = {name for name in options if name.startswith("trackside.placement.")}
    assert engines == {"trackside.placement.slurm_options"}
    assert "difflib" not in done.stdout.split()
