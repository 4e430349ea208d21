"""Rules as they are typed."""

import click
import pytest

from trackside.cli import rule_options
from trackside.cli.rule_options import Named
from trackside.rules import capture_plan
from trackside.sdk.actions import ActionList
from trackside.sdk.rule import AnyRule, Rule

CONTEXT = click.Context(click.Command("run"))
OPTION = click.Option(["--rule"])


def parsed(*texts: str) -> list[Named]:
    return rule_options.parse(CONTEXT, OPTION, texts)


def rules(*texts: str, stop: tuple[str, ...] = ()) -> list[AnyRule]:
    return rule_options.rules_of(parsed(*texts), parsed(*stop))


def stopping(found: list[AnyRule]) -> list[str]:
    return [rule.name for rule in found if isinstance(rule, Rule) and rule.actions]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("DeadRelu", Named("DeadRelu")),
        ("A:x=1,y=2.5", Named("A", {"x": "1", "y": "2.5"})),
        ("A:names=weights,biases,x=1", Named("A", {"names": "weights,biases", "x": "1"})),
        ("A:regex=.*relu:0|a=b,x=", Named("A", {"regex": ".*relu:0|a=b", "x": ""})),
        ("my_rules.py:MyRule", Named("MyRule", {}, "my_rules.py")),
        ("a/b.py:R:x=1", Named("R", {"x": "1"}, "a/b.py")),
        ("s3://bucket/r.py:R", Named("R", {}, "s3://bucket/r.py")),
    ],
)
def test_a_rule_is_a_name_and_parameters(text: str, named: Named):
    assert parsed(text) == [named]


@pytest.mark.parametrize("text", ["A:x", "my_rules.py", "my_rules.py:"])
def test_what_is_no_rule_is_refused(text: str):
    with pytest.raises(click.BadParameter, match=r"my_rules\.py|form"):
        parsed(text)


def test_names_are_found_in_any_spelling_and_are_unique():
    found = rules("vanishing_gradient", "VanishingGradient:threshold=1", "my.py:R")
    assert [rule.name for rule in found] == ["VanishingGradient", "VanishingGradient-2", "R"]
    assert {rule.invokes for rule in found} == {"VanishingGradient", "R"}


def test_the_same_rule_twice_is_one():
    assert len(rules("VanishingGradient", "VanishingGradient")) == 1


def test_a_rule_that_stops_the_job_is_the_one_that_was_asked_for():
    found = rules("VanishingGradient:threshold=1", "my.py:R", stop=("VanishingGradient",))
    assert stopping(found) == ["VanishingGradient"]
    assert len(found) == 2
    (rule,) = rules(stop=("VanishingGradient:threshold=2",))
    assert isinstance(rule, Rule)
    assert isinstance(rule.actions, ActionList)
    both = rules("VanishingGradient", stop=("VanishingGradient:threshold=2",))
    assert stopping(both) == ["VanishingGradient-2"]


def test_all_gives_way_to_what_is_named():
    every = rules("all")
    assert [rule.name for rule in every] == capture_plan.all_rules()
    own = rules("all", "StalledTrainingRule:threshold=1")
    assert len(own) == len(every)
    assert {"threshold": "1"}.items() <= own[0].rule_parameters.items()


def test_no_rules_load_nothing_of_the_rules():
    import subprocess
    import sys

    code = (
        "import sys, trackside.cli.run; from trackside.cli import rule_options as r;"
        "assert r.rules_of([], []) == []; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.split() if name.startswith("trackside.rules")]


def test_a_job_with_all_rules_starts_without_importing_one_of_them():
    import subprocess
    import sys

    code = (
        "import sys\n"
        "from trackside.cli import rule_options as r\n"
        "from trackside.records.layout import JobKeys\n"
        "from trackside.sdk.debug_request import needed, rule_violations\n"
        "rules = r.rules_of([r.Named('all')], [])\n"
        "assert needed(rules, 'WATCHFUL', [])\n"
        "assert not [*rule_violations(rules, JobKeys('s3://b', 'j'))]\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {*done.stdout.split()}
    assert not loaded & {"numpy", "trackside.rules.builtin", "trackside.rules.checkup.checkup"}
