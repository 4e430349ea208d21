"""Code is checked before anything is created, and packed without what is no code."""

import io
import tarfile
from pathlib import Path

import pytest

from trackside.errors import InvalidSpec
from trackside.sdk.source import Source, find_source


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "src"
    write(root / "train.py", "print('hello')\n")
    write(root / "lib" / "model.py", "x = 1\n")
    return root


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def names(source: Source, **options) -> set[str]:
    data = b"".join(source.pack(**options))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name for member in archive if member.isfile()}


def complaint(*arguments, **options) -> str:
    with pytest.raises(InvalidSpec) as caught:
        find_source(*arguments, **options)
    return str(caught.value)


def test_a_folder_is_packed_at_the_archives_root(folder: Path):
    source = find_source("train.py", folder)
    assert source.program == "train.py"
    assert names(source) == {"train.py", "lib/model.py"}


def test_without_a_folder_only_the_script_is_packed(folder: Path):
    write(folder / "requirements.txt", "")
    source = find_source(folder / "train.py")
    assert source.program == "train.py"
    assert names(source) == {"train.py"}


def test_what_the_script_s_folder_ignores_goes_with_a_single_script(folder: Path):
    (folder / ".tracksideignore").write_text("data/")
    assert names(find_source(folder / "train.py")) == {"train.py", ".tracksideignore"}


def test_what_is_no_code_is_left_out(folder: Path):
    for name in (".git/config", "lib/__pycache__/model.pyc", ".ipynb_checkpoints/a", ".DS_Store"):
        write(folder / name, "")
    write(folder / "env" / "pyvenv.cfg", "")
    write(folder / "env" / "lib" / "big.py", "")
    write(folder / "home" / "buckets" / "data", "")
    assert names(find_source("train.py", folder), leave_out=[folder / "home"]) == {
        "train.py",
        "lib/model.py",
    }


def test_links_are_followed_but_never_in_a_circle(folder: Path, tmp_path: Path):
    (folder / "again").symlink_to(folder)
    (folder / "shared").symlink_to(write(tmp_path / "else" / "tool.py", "").parent)
    (folder / "copy.py").symlink_to(folder / "train.py")
    assert names(find_source("train.py", folder)) == {
        "train.py",
        "copy.py",
        "lib/model.py",
        "shared/tool.py",
    }


def test_dependencies_keep_their_own_names(folder: Path, tmp_path: Path):
    library = write(tmp_path / "common" / "io.py", "").parent
    single = write(tmp_path / "extra.py", "")
    source = find_source("train.py", folder, [library, single])
    assert names(source) == {"train.py", "lib/model.py", "common/io.py", "extra.py"}


def test_a_dependency_that_is_not_there_is_named(folder: Path):
    assert "dependencies" in complaint("train.py", folder, ["/nowhere/lib"])


def test_a_leading_dot_slash_is_dropped(folder: Path):
    assert find_source("./train.py", folder).program == "train.py"
    assert find_source("lib/./model.py", folder).program == "lib/model.py"


def test_an_absolute_path_inside_the_folder_is_made_relative(folder: Path):
    assert find_source(folder / "lib" / "model.py", folder).program == "lib/model.py"


def test_a_stored_archive_is_passed_through():
    source = find_source("train.py", "s3://bucket/code/sourcedir.tar.gz")
    assert (source.program, source.uri) == ("train.py", "s3://bucket/code/sourcedir.tar.gz")
    assert "must name a .tar.gz" in complaint("train.py", "s3://bucket/code/")
    assert "put them into it" in complaint("train.py", "s3://b/x.tar.gz", ["lib"])


def test_a_missing_script_names_those_that_are_there(folder: Path):
    text = complaint("trian.py", folder)
    assert str(folder / "trian.py") in text
    assert "Scripts there: train.py" in text


def test_a_script_named_from_here_instead_of_from_the_folder_is_explained(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(folder.parent)
    assert "relative to source_dir: write 'train.py'" in complaint("src/train.py", "src")


def test_a_folder_in_place_of_a_script_names_the_scripts_in_it(folder: Path):
    said = complaint(folder)
    assert "is a folder. Name the script in it" in said
    assert "Scripts there: train.py" in said


def test_a_notebook_is_no_script(folder: Path):
    (folder / "explore.ipynb").write_text("{}")
    said = complaint(folder / "explore.ipynb")
    assert "is a notebook, and jobs run scripts" in said
    assert said.endswith("makes one of it: explore.py")


def test_a_missing_folder_is_named(tmp_path: Path):
    assert "source_dir = " in complaint("train.py", tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["../train.py", "/etc/passwd"])
def test_a_script_outside_the_folder_is_refused(folder: Path, name: str):
    assert "must lie inside source_dir" in complaint(name, folder)


@pytest.mark.parametrize("name", ["my train.py", "-train.py", "trä.py", "a;b.py"])
def test_a_name_the_toolkit_refuses_is_refused_here(folder: Path, name: str):
    write(folder / name, "")
    assert "use letters, digits" in complaint(name, folder)


def test_a_syntax_error_is_found_with_file_and_line(folder: Path):
    script = write(folder / "broken.py", "import os\nif True\n    pass\n")
    assert f"{script}:2: expected ':'" in complaint("broken.py", folder)
    assert find_source("broken.py", folder, check_syntax=False).program == "broken.py"


def test_a_script_that_is_not_python_is_not_compiled(folder: Path):
    write(folder / "train.sh", "#!/bin/sh\necho hello\n")
    assert find_source("train.sh", folder).program == "train.sh"
