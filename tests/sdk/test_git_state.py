"""Which commit a job's code is of: repositories as git makes them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from trackside.records.spec import GitState, JobSpec
from trackside.sdk import git_state
from trackside.sdk.git_state import GitReader, reading_git, without_secrets


@pytest.fixture(autouse=True)
def own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "no-config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setattr(git_state, "WAIT_SECONDS", 60.0)  # the machine may stand still
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ada@example.com")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "train.py").write_text("print(1)\n")
    git(folder, "init", "-q", "-b", "feature/x")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "First")
    return folder


def state(folder: Path) -> GitState | None:
    git = GitReader(folder)
    try:
        return git.state()
    finally:
        git.close()


def test_commit_branch_and_remote_are_noted(repository: Path):
    git(repository, "remote", "add", "origin", "https://ada:secret@example.com/team/code.git")
    git(repository, "remote", "add", "other", "/srv/other.git")
    assert state(repository / "src") == GitState(
        commit=git(repository, "rev-parse", "HEAD"),
        branch="feature/x",
        is_changed=False,
        remote="https://example.com/team/code.git",
    )


def test_a_change_of_a_tracked_file_is_reported_and_a_new_file_is_none(repository: Path):
    (repository / "notes.txt").write_text("new")
    found = state(repository)
    assert found is not None
    assert found.is_changed is False
    (repository / "src" / "train.py").write_text("print(2)\n")
    found = state(repository)
    assert found is not None
    assert found.is_changed is True


def diff(folder: Path) -> str:
    git = GitReader(folder)
    try:
        git.state()
        return git.diff().decode()
    finally:
        git.close()


def test_the_change_is_noted_line_by_line_without_secrets_and_binary_files(repository: Path):
    (repository / "picture.png").write_bytes(bytes(range(256)))
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "Second")
    assert diff(repository) == ""
    (repository / "src" / "train.py").write_text("print(2)\nAPI_KEY = 'abcdef'\n")
    (repository / "picture.png").write_bytes(bytes(reversed(range(256))))
    (repository / "new.py").write_text("print(3)\n")
    git(repository, "add", "new.py")  # staged changes are changes, too
    (repository / "untracked.py").write_text("print(4)\n")

    changed = diff(repository / "src")

    assert "-print(1)\n+print(2)\n+API_KEY = '***'\n" in changed
    assert "+++ b/new.py\n" in changed
    assert "Binary files a/picture.png and b/picture.png differ" in changed
    assert "untracked" not in changed


def test_the_users_own_way_to_show_changes_is_not_used(repository: Path, tmp_path: Path):
    for name, value in {
        "diff.external": str(tmp_path / "none"),
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "diff.relative": "true",
        "diff.orderFile": str(tmp_path / "none"),
        "color.ui": "always",
    }.items():
        git(repository, "config", name, value)
    (repository / "src" / "train.py").write_text("print(2)\n")
    (repository / "src" / "deeper").mkdir()

    changed = diff(repository / "src" / "deeper")

    assert changed.startswith("diff --git a/src/train.py b/src/train.py\n")


def test_of_a_large_change_whole_lines_from_the_beginning_are_noted(
    repository: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(git_state, "MOST_DIFF_BYTES", 100_000)
    (repository / "src" / "train.py").write_text("".join(f"x = {n}\n" for n in range(100_000)))

    changed = diff(repository)
    found = state(repository)

    assert len(changed) < 101_000
    assert changed.endswith("]\n")
    assert all(line.startswith("+x = ") for line in changed.splitlines()[6:-1])
    assert found is not None
    assert found.is_changed is True


def test_without_git_no_change_is_noted(repository: Path, monkeypatch: pytest.MonkeyPatch):
    (repository / "src" / "train.py").write_text("print(2)\n")
    monkeypatch.setenv("PATH", os.devnull)
    assert diff(repository) == ""


def test_the_folder_is_noted_as_its_path_in_a_repository_that_others_may_have(repository: Path):
    reader = GitReader(repository / "src")
    assert reader.folder == str(repository / "src")
    reader.close()
    git(repository, "remote", "add", "origin", "https://example.com/team/code.git")
    for folder, noted in ((repository / "src", "src"), (repository, "."), (None, "")):
        reader = GitReader(folder)
        assert reader.folder == noted
        reader.close()


def test_packed_references_detached_heads_and_working_trees_are_read(
    repository: Path, tmp_path: Path
):
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "pack-refs", "--all")
    git(repository, "remote", "add", "upstream", "git@example.com:team/code.git")
    tree = tmp_path / "tree"
    git(repository, "worktree", "add", "-q", str(tree), "-b", "second")
    detached = tmp_path / "detached"
    git(repository, "worktree", "add", "-q", "--detach", str(detached))
    remote = "git@example.com:team/code.git"
    assert [state(folder) for folder in (repository, tree / "src", detached)] == [
        GitState(commit=commit, branch="feature/x", is_changed=False, remote=remote),
        GitState(commit=commit, branch="second", is_changed=False, remote=remote),
        GitState(commit=commit, branch=None, is_changed=False, remote=remote),
    ]


def test_without_git_all_is_noted_but_whether_files_were_changed(
    repository: Path, monkeypatch: pytest.MonkeyPatch
):
    commit = git(repository, "rev-parse", "HEAD")
    monkeypatch.setenv("PATH", os.devnull)
    assert state(repository) == GitState(commit=commit, branch="feature/x")


def test_a_git_that_takes_too_long_is_not_waited_for(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    commit = git(repository, "rev-parse", "HEAD")
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(slow.parent), prepend=os.pathsep)
    monkeypatch.setattr(git_state, "WAIT_SECONDS", 0.1)
    assert state(repository) == GitState(commit=commit, branch="feature/x")


def test_where_there_is_no_commit_nothing_is_noted(tmp_path: Path):
    assert state(tmp_path) is None
    assert state(tmp_path / "not" / "there") is None
    git(tmp_path, "init", "-q")
    assert state(tmp_path) is None
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/../../../etc/passwd\n")
    assert state(tmp_path) is None
    shutil.rmtree(tmp_path / ".git")
    (tmp_path / ".git").write_bytes(b"gitdir: \xff\n")
    assert state(tmp_path) is None


def test_the_folder_is_that_of_the_source(repository: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir("/")
    commit = git(repository, "rev-parse", "HEAD")
    spec = JobSpec.from_request(
        {
            "TrainingJobName": "job",
            "HyperParameters": {"sagemaker_program": "train.py"},
            "OutputDataConfig": {"S3OutputPath": "s3://out/runs"},
        }
    )
    for arguments in (
        {"entry_point": str(repository / "src" / "train.py")},
        {"entry_point": "train.py", "source_dir": str(repository / "src")},
        {"module": "train", "source_dir": str(repository)},
    ):
        with reading_git(arguments) as reader:
            noted = reader.added_to(spec)
        assert noted.options.git is not None
        assert noted.options.git.commit == commit
        assert JobSpec.from_request(noted.to_request()) == noted
    for arguments in ({"entry_point": "train.py", "source_dir": "s3://bucket/x.tar.gz"}, {}):
        with reading_git(arguments) as reader:
            assert reader.added_to(spec) is spec


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://user:token@example.com/x.git", "https://example.com/x.git"),
        ("https://ghp_token@example.com/x.git", "https://example.com/x.git"),
        ("https://example.com/x.git?token=1#y", "https://example.com/x.git"),
        ("ssh://git:secret@example.com:22/x.git", "ssh://git@example.com:22/x.git"),
        ("git@example.com:team/x.git", "git@example.com:team/x.git"),
        ("/srv/x.git", "/srv/x.git"),
    ],
)
def test_an_address_is_noted_without_its_secrets(given: str, shown: str):
    assert without_secrets(given) == shown
