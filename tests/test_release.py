"""What a release consists of: one version, an sdist without the zoo, wheels with and without C.

`.ci/release` builds and installs them; here is what can be checked in seconds.
"""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from build_native import COMMIT, SOURCES
from hatchling.builders.sdist import SdistBuilder
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import trackside

PROJECT = Path(__file__).parents[1]
LARGEST_BYTES = 500_000
ALL_BYTES = 20_000_000
SECRETS = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\n[A-Za-z0-9+/]{20}"
    rb"|\b(?:AKIA|ASIA)[A-Z2-7]{16}\b(?<!EXAMPLE)"
)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpacked, as a builder of wheels has it."""
    folder = tmp_path_factory.mktemp("sdist")
    [archive] = SdistBuilder(str(PROJECT)).build(directory=str(folder))
    subprocess.run(["tar", "-xzf", archive, "-C", str(folder)], check=True)
    return folder / f"trackside-{trackside.__version__}"


def built_wheel(sdist: Path, folder: Path, compiler: str) -> Path:
    code = (
        "import sys; from hatchling.builders.wheel import WheelBuilder\n"
        "[path] = WheelBuilder('.').build(directory=sys.argv[1], versions=['standard'])\n"
        "print(path)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        cwd=sdist,
        env={**os.environ, "CC": compiler},
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(done.stdout.splitlines()[-1])


def test_there_is_one_version():
    metadata = ProjectMetadata(str(PROJECT), PluginManager())
    assert metadata.version == trackside.__version__
    assert "version" in metadata.dynamic, "src/trackside/__init__.py has it alone"


def test_the_changelog_has_the_heading_that_a_release_requires():
    """`.ci/release` refuses to build without it."""
    found = re.search(r'^grep -q "(.+)" CHANGELOG\.md', (PROJECT / ".ci/release").read_text(), re.M)
    assert found
    heading = found[1].replace("$version", re.escape(trackside.__version__))
    assert re.search(heading, (PROJECT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_importing_trackside_does_not_read_its_metadata():
    code = "import sys, trackside; assert trackside.__version__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"importlib.metadata", "subprocess"} & set(done.stdout.split())


def test_every_c_source_is_built():
    """A source that has moved would silently be left out: builds continue without a compiler."""
    found = {path.relative_to(PROJECT) for path in (PROJECT / "src").rglob("*.c")}
    assert found == set(SOURCES)
    ignored = (PROJECT / ".gitignore").read_text().splitlines()
    assert {source.with_suffix(".so").as_posix() for source in SOURCES} <= set(ignored)
    stamps = (PROJECT / "Makefile").read_text()
    assert all(source.as_posix() in stamps for source in SOURCES)


def test_an_sdist_has_what_builds_and_tests_it_and_nothing_else(sdist: Path):
    below = {path.name for path in sdist.iterdir()}
    assert {"src", "tests", "docs", "examples", "Makefile", "build_native.py", "LICENSE"} <= below
    assert {"build_page.py", "web"} <= below
    unwanted = {"zoo", "dist", "build", ".git", ".demo", ".wheels-tensorflow"}
    assert not below & unwanted
    assert not [name for name in below if name.startswith(".venv")]
    assert not list(sdist.rglob("node_modules"))
    files = [path for path in sdist.rglob("*") if path.is_file()]
    assert not [path for path in files if path.suffix in {".so", ".pyc", ".whl"}]
    assert [str(path) for path in files if path.stat().st_size > LARGEST_BYTES] == []
    assert sum(path.stat().st_size for path in files) < ALL_BYTES


def test_an_sdist_holds_no_secret(sdist: Path):
    files = [path for path in sdist.rglob("*") if path.is_file()]
    names = {".env", ".netrc", ".pypirc", "pip.conf", "credentials", "id_rsa", "id_ed25519"}
    assert [str(path) for path in files if path.name in names] == []
    assert [str(path) for path in files if SECRETS.search(path.read_bytes())] == []
    # Nor a path of the machine that it was built on.
    assert [str(path) for path in files if str(PROJECT).encode() in path.read_bytes()] == []


@pytest.mark.parametrize("compiler", ["cc", "false"])
def test_a_wheel_has_our_packages_and_is_pure_without_a_compiler(
    sdist: Path, tmp_path: Path, compiler: str
):
    wheel = built_wheel(sdist, tmp_path, compiler)
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    information = f"trackside-{trackside.__version__}.dist-info"
    top = {name.partition("/")[0] for name in names}
    assert top == {"trackside", "trackside_smdebug.pth", information}
    assert {"trackside/py.typed", "trackside/commit.txt"} <= names
    libraries = {name for name in names if name.endswith(".so")}
    if wheel.name.endswith("-py3-none-any.whl"):
        assert libraries == set()
    else:
        assert compiler == "cc"
        expected = {each.relative_to("src").with_suffix(".so").as_posix() for each in SOURCES}
        assert libraries == expected


def test_a_wheel_built_from_an_sdist_names_the_commit_of_the_clone(sdist: Path):
    """The unpacked sdist has no `.git`."""
    if not (PROJECT / ".git").exists():
        pytest.skip("this is no clone")
    head = ["git", "-C", str(PROJECT), "rev-parse", "HEAD"]
    commit = subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()
    assert (sdist / COMMIT).read_text().split()[0] == commit
