"""`trackside --version`: the commit of builds, clones and worktrees, and the extras."""

import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from trackside.cli.version import EXTRAS, PACKAGE, commit, describe

PROJECT = Path(__file__).parents[2]


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def made_clone(folder: Path) -> Path:
    """A repository with one commit, and a package in it."""
    (folder / "src" / "trackside").mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "first")
    return folder


def commit_of(clone: Path) -> str:
    return commit(clone / "src" / "trackside")


def test_a_clone_has_the_commit_of_its_branch(tmp_path: Path):
    clone = made_clone(tmp_path)
    assert commit_of(clone) == git(clone, "rev-parse", "HEAD")[:7]
    git(clone, "pack-refs", "--all")
    assert commit_of(clone) == git(clone, "rev-parse", "HEAD")[:7]
    git(clone, "checkout", "--quiet", "--detach")
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "second")
    assert commit_of(clone) == git(clone, "rev-parse", "HEAD")[:7]


def test_a_worktree_has_a_commit_of_its_own(tmp_path: Path):
    clone = made_clone(tmp_path / "clone")
    git(clone, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "other"))
    worktree = tmp_path / "other"
    (worktree / "src" / "trackside").mkdir(parents=True)
    git(worktree, "commit", "--quiet", "--allow-empty", "--message", "second")
    assert commit_of(worktree) == git(worktree, "rev-parse", "HEAD")[:7]
    assert commit_of(worktree) != commit_of(clone)


def test_a_build_names_the_commit_that_it_was_made_of(tmp_path: Path):
    (tmp_path / "commit.txt").write_text(f"{'1a2b3c4d' * 5}\n")
    assert commit(tmp_path) == "1a2b3c4"
    (tmp_path / "commit.txt").write_text(f"{'1a2b3c4d' * 5} modified\n")
    assert commit(tmp_path) == "1a2b3c4 modified"


def test_the_repository_around_an_installation_is_not_ours(tmp_path: Path):
    clone = made_clone(tmp_path)
    installed = clone / "vendor" / "trackside"
    installed.mkdir(parents=True)
    assert commit(installed) == ""
    assert commit(tmp_path / "src" / "nothing" / "trackside") == ""


def test_a_damaged_repository_has_no_commit(tmp_path: Path):
    clone = made_clone(tmp_path)
    (clone / ".git" / "HEAD").write_text("ref: refs/heads/gone\n")
    assert commit_of(clone) == ""
    (clone / ".git" / "HEAD").write_text("nonsense\n")
    assert commit_of(clone) == ""


def test_the_extras_are_those_of_pyproject():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"all", "dev"}
    distributions = packages_distributions()
    needed = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    for extra, modules in EXTRAS.items():
        named = {canonicalize_name(Requirement(line).name) for line in extras[extra]}
        found = {
            canonicalize_name(name).removesuffix("-binary")
            for module in modules
            for name in distributions[module]
        }
        assert named - needed - {"trackside"} <= found, extra


def test_a_missing_extra_is_named_without_importing_the_others():
    code = (
        "import sys; from trackside.cli import version\n"
        "version.EXTRAS = {'server': ('uvicorn',), 'cloud': ('no_such_module',)}\n"
        "print(version.describe()); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    shown, modules = done.stdout.splitlines()
    assert shown.endswith("; extras: server; without: cloud)")
    assert not {"uvicorn", "subprocess", "importlib.metadata"} & set(modules.split())


def test_this_clone_is_described_in_one_line():
    assert "\n" not in describe()
    if not (PROJECT / ".git").exists():
        pytest.skip("this is no clone")
    assert commit(PACKAGE) == git(PROJECT, "rev-parse", "HEAD")[:7]
