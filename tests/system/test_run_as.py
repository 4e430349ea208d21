"""Who runs scripts: how the setting is read, and which users it may name."""

import os
import pwd

import pytest

from trackside.errors import InvalidSetting
from trackside.system.run_as import Choice, JobUser, RunAs, find_user


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", RunAs()),
        ("alice", RunAs("alice")),
        ("ci=ci-user,team=alice,jobs", RunAs("jobs", {"ci": "ci-user", "team": "alice"})),
        (" ci = ci-user , jobs ", RunAs("jobs", {"ci": "ci-user"})),
        ("a=b=1001:1001", RunAs("", {"a=b": "1001:1001"})),
        ("jobs,jobs,ci=x,ci=x", RunAs("jobs", {"ci": "x"})),
    ],
)
def test_a_setting_names_a_user_for_some_labels_and_one_for_all_others(
    text: str, meant: RunAs
) -> None:
    assert RunAs.parse(text) == meant


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("=alice", "has '=alice'"),
        ("ci=", "has 'ci='"),
        ("alice,bob", "'alice' and 'bob' for all other jobs"),
        ("ci=alice,ci=bob", "'alice' and 'bob' for the label 'ci'"),
    ],
)
def test_an_empty_or_ambiguous_setting_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidSetting, match=words):
        RunAs.parse(text)


def test_only_the_user_of_a_label_of_its_own_is_not_shared() -> None:
    run_as = RunAs.parse("ci=ci-user,jobs")
    assert run_as.choose("ci") == Choice("ci-user", is_shared=False)
    assert run_as.choose("team") == run_as.choose("") == Choice("jobs", is_shared=True)
    assert RunAs.parse("ci=ci-user").choose("team") == Choice("")
    assert run_as.users == ["ci-user", "jobs"]


def test_a_user_is_found_by_its_name_with_all_its_groups() -> None:
    entry = pwd.getpwnam("nobody")
    user = find_user("nobody")
    assert (user.name, user.uid, user.gid) == ("nobody", entry.pw_uid, entry.pw_gid)
    assert sorted(user.groups) == sorted(os.getgrouplist("nobody", entry.pw_gid))


def test_a_number_needs_no_name() -> None:
    assert find_user("65531") == JobUser("65531", 65531, 65531, (65531,))
    assert find_user("65531:1234") == JobUser("65531:1234", 65531, 1234, (1234,))
    assert find_user(str(pwd.getpwnam("nobody").pw_uid)).name == "nobody"


def test_a_home_is_a_user_s_own_only_if_it_owns_it(tmp_path, monkeypatch) -> None:
    mine = pwd.struct_passwd(("me", "x", os.geteuid() or 65531, 65531, "", str(tmp_path), ""))
    monkeypatch.setattr(pwd, "getpwnam", lambda name: mine)
    monkeypatch.setattr(os, "getgrouplist", lambda name, gid: [gid])
    assert find_user("me").home == (str(tmp_path) if os.geteuid() else None)
    if os.geteuid() == 0:
        os.chown(tmp_path, 65531, 65531)
        assert find_user("me").home == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("root", "'root', which is root"),
        ("0", "'0', which is root"),
        ("0:1000", "which is root"),
        ("1000:0", "in root's group"),
        ("nobody-of-that-name", "'nobody-of-that-name', whom this system does not know"),
        ("4294967295", "ids end at"),
        ("1000:99999999999", "ids end at"),
        ("-1", "does not know"),
    ],
)
def test_root_and_users_that_there_are_not_are_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidSetting, match=words):
        find_user(text)
