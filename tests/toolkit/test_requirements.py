import sys
from pathlib import Path

import pytest

from trackside.toolkit.requirements import fingerprint, is_satisfied


@pytest.fixture
def requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty file, in an environment of three packages."""
    for name in ("some_tool-1.4.2", "torch-2.13.0+cpu", "early-1.0rc1"):
        (tmp_path / "site" / f"{name}.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    monkeypatch.chdir(tmp_path)
    return tmp_path / "requirements.txt"


@pytest.mark.parametrize(
    ("text", "satisfied"),
    [
        ("", True),
        ("# only a comment\n", True),
        ("some-tool", True),
        ("Some.Tool  # any spelling", True),
        ("some-tool==1.4.2", True),
        ("some-tool == 1.4.2", True),
        ("some-tool>=1.4,<2", True),
        ("some-tool!=1.4.1", True),
        ("torch==2.13.0", True),
        ("torch==2.13", True),
        ("some-tool==1.4", False),
        ("some-tool>1.4.2", False),
        ("some-tool<1.4.2", False),
        ("some-tool>=1.10", False),
        ("some-tool>=1.4 \\\n,<1.4.2", False),
        ("missing", False),
        ("some-tool\nmissing", False),
        ("early", True),
        ("early>=1.0", False),
        ("some-tool~=1.4", False),
        ("some-tool[extra]", False),
        ("some-tool; python_version > '3'", False),
        ("some-tool==1.*", False),
        ("-r other.txt", False),
        ("./wheel.whl", False),
        ("some-tool @ https://host/x.whl", False),
    ],
)
def test_only_what_is_beyond_doubt_counts_as_installed(
    requirements: Path, text: str, satisfied: bool
):
    requirements.write_text(text)
    assert is_satisfied(str(requirements), sys.path) is satisfied


def test_the_fingerprint_covers_everything_a_file_refers_to(requirements: Path, tmp_path: Path):
    (tmp_path / "deps").mkdir()
    (tmp_path / "wheels").mkdir()
    parts = [
        tmp_path / "deps" / "more.txt",
        tmp_path / "deps" / "deeper.txt",
        tmp_path / "limits.txt",
        tmp_path / "own.whl",
        tmp_path / "wheels" / "a.whl",
        requirements,
    ]
    requirements.write_text(
        "numpy\n-r deps/more.txt\n-climits.txt\n./own.whl\n--find-links=wheels\n--no-index\n"
    )
    parts[0].write_text("-r deeper.txt\n")
    for part in parts[1:5]:
        part.write_text("")
    seen = {fingerprint(str(requirements), {}, sys.path)}
    for part in parts:
        with part.open("a") as file:
            file.write("# changed\n")
        seen.add(fingerprint(str(requirements), {}, sys.path))
    seen.add(fingerprint(str(requirements), {"PIP_INDEX_URL": "https://other"}, sys.path))
    assert None not in seen
    assert len(seen) == 1 + len(parts) + 1


def test_the_fingerprint_covers_the_packages_that_are_there(
    requirements: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site)])
    requirements.write_text("numpy")
    before = fingerprint(str(requirements), {}, sys.path)
    assert fingerprint(str(requirements), {}, sys.path) == before
    (site / "numpy-1.0.dist-info").mkdir()
    assert fingerprint(str(requirements), {}, sys.path) != before


@pytest.mark.parametrize(
    "line",
    [
        "-e .",
        "--editable=.",
        "./folder",
        "git+https://host/repository@main",
        "name @ https://host/name.whl",
        "https://host/name.whl",
        "https://${TOKEN}@host/name.whl",
        "-r missing.txt",
        "-f https://host/wheels",
        "./missing.whl",
    ],
)
def test_what_may_change_behind_its_name_has_no_fingerprint(
    requirements: Path, tmp_path: Path, line: str
):
    (tmp_path / "folder").mkdir()
    requirements.write_text(f"numpy\n{line}\n")
    assert fingerprint(str(requirements), {}, sys.path) is None


def test_files_that_refer_to_each_other_end(requirements: Path):
    requirements.write_text("-r requirements.txt\n")
    assert fingerprint(str(requirements), {}, sys.path) is not None
