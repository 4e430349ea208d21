"""How a custom rule is to be shut in, as far as that is decided beforehand."""

import os
import sys
from pathlib import Path

import pytest

from trackside.rules.custom import confinement
from trackside.rules.custom.confinement import Plan, kinds, variables, views


@pytest.mark.parametrize(
    ("isolation", "is_root", "expected"),
    [
        ("auto", True, ["root", "user", "uid", "none"]),
        ("auto", False, ["user", "none"]),
        ("root", True, ["root"]),
        ("root", False, []),
        ("user", True, ["user"]),
        ("user", False, ["user"]),
        ("none", True, ["uid", "none"]),
        ("none", False, ["none"]),
    ],
)
def test_the_best_isolation_are_tried_first_and_those_asked_for_alone(isolation, is_root, expected):
    assert kinds(isolation, is_root=is_root, is_linux=True) == expected


@pytest.mark.parametrize(
    ("isolation", "is_root", "expected"),
    [
        ("auto", True, ["root", "user", "uid"]),
        ("auto", False, ["user"]),
        ("none", True, ["uid", "none"]),
        ("none", False, ["none"]),
        ("root", True, ["root"]),
    ],
)
def test_an_untrusted_user_s_rule_runs_unconfined_only_where_that_is_asked_for(
    isolation, is_root, expected
):
    found = kinds(isolation, is_root=is_root, is_stranger=True, is_linux=True)
    assert found == expected


def test_folders_that_may_be_closed_hold_python_alone(monkeypatch, tmp_path: Path):
    packages, project = tmp_path / "site-packages", tmp_path / "project"
    for each in (packages, project):
        each.mkdir()
        monkeypatch.syspath_prepend(str(each))
    found = confinement.python_folders()
    assert str(packages) in found
    assert str(project) not in found
    assert not [each for each in found if each == "/" or Path(each).is_relative_to("/usr")]
    assert not [a for a in found for b in found if a != b and Path(a).is_relative_to(b)]


def test_elsewhere_than_on_linux_there_are_no_namespaces():
    assert kinds("auto", is_root=False, is_linux=False) == ["none"]
    assert kinds("user", is_root=False, is_linux=False) == []


def test_only_variables_that_are_known_to_be_safe_are_kept():
    given = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "OMP_NUM_THREADS": "2",
        "HOME": "/home/me",
        "AWS_ACCESS_KEY_ID": "id",
        "TRACKSIDE_SMTP_PASSWORD": "secret",
        "MY_API_KEY": "secret",
        "HTTPS_PROXY": "http://user:password@proxy",
        "TRACKSIDE_NONCE": "the evaluator's",
    }
    kept = variables(given, "mark")
    assert {name: kept.get(name) for name in given} == {
        **dict.fromkeys(given),
        "PATH": "/bin",
        "LC_ALL": "C",
        "OMP_NUM_THREADS": "2",
        "TRACKSIDE_NONCE": "mark",
    }


def test_python_and_its_packages_are_seen_and_none_twice():
    found = views({})
    shown = [*map(Path, found)]
    for wanted in (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), __file__):
        is_shown = any(Path(wanted).is_relative_to(each) for each in shown)
        assert is_shown or wanted == __file__, wanted
    assert not [a for a in shown for b in shown if a != b and a.is_relative_to(b)]
    assert "/" not in found


def test_a_folder_is_shown_by_both_its_names(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "name").symlink_to("real")
    found = views({}, [str(tmp_path / "name"), "relative", "", str(tmp_path / "missing")])
    real = os.path.realpath(tmp_path / "real")
    assert {str(tmp_path / "name"), real} <= {*found}
    assert not [each for each in found if "missing" in each or "relative" in each]


def test_what_is_needed_of_a_hidden_folder_stays_a_view_of_its_own(tmp_path: Path):
    """A server's packages may be kept in its home."""
    packages = tmp_path / "home" / "venv"
    packages.mkdir(parents=True)
    more = [str(tmp_path), str(packages)]
    assert str(packages) not in views({}, more)
    assert str(packages) in views({}, more, hidden=str(tmp_path / "home"))


def test_the_rule_s_own_tmp_is_no_view():
    assert "/tmp" not in views({}, ["/tmp", "/dev/shm"])


def test_the_folder_of_an_installed_package_is_found():
    folder = confinement.package_folder("trackside.rules.custom")
    assert folder == os.path.dirname(sys.modules["trackside"].__file__ or "")
    assert confinement.package_folder("no_such_package") is None
    assert confinement.package_folder("sys") is None


def test_a_plan_arrives_as_it_was_sent():
    plan = Plan(
        kinds=["none"],
        user=1,
        views=["/usr"],
        python=["/opt/venv"],
        hidden="/home of jobs",
        work_folder="/tmp/x",
        mark="m",
        group="g",
        memory_bytes=2,
        num_processes=3,
        line=4,
    )
    assert Plan.from_text(plan.to_text()) == plan
