from typing import Any

import pytest

from trackside.records.finding import Finding
from trackside.rules.checkup.diagnosis import diagnose
from trackside.views.problems.fingerprints import (
    VERSION,
    failure_of,
    folded,
    id_of,
    issue_id,
    place_of,
)


def found(**members: Any) -> Finding:
    return Finding(**{"rule": "VanishingGradient", "message": "It is small.", **members})


@pytest.mark.parametrize(
    ("tensor", "place"),
    [
        ("", ""),
        ("layers.0.mlp.up", "layers.*.mlp.up"),
        ("layers.11.mlp.up", "layers.*.mlp.up"),
        ("gradient/layers.0.mlp.up.weight", "layers.*.mlp.up"),
        ("layers.3.mlp.up.bias", "layers.*.mlp.up"),
        ("module.layers.3.mlp.up.bias", "layers.*.mlp.up"),
        ("module._orig_mod.layers.3.mlp.up", "layers.*.mlp.up"),
        ("vitals/activation/layers.3.relu/std", "layers.*.relu"),
        ("vitals/activation/0/dead_share", "*"),
        ("vitals/learning_rate/0", "learning_rate/*"),
        ("layer1.0.conv1.weight", "layer1.*.conv1"),
        ("encoder/layer_12/dense/kernel:0", "encoder/layer_*/dense"),
        ("CrossEntropyLoss_output_0", "CrossEntropyLoss"),
        ("loss_input_1", "loss"),
        ("weight", "weight"),
        ("module", "module"),
        ("0.1.2", "*.*.*"),
        ("gradient/", ""),
        ("<script>alert(1)</script>.0", "<script>alert(1)</script>.*"),
        ("a\nb.0", "a\nb.*"),
        ("x" * 5000, "x" * 200),
    ],
)
def test_indices_are_folded_and_what_is_not_the_layer_is_cut(tensor, place):
    assert folded(tensor) == place


def test_findings_of_one_cause_at_one_kind_of_layer_are_one_issue():
    first, second = found(tensor="gradient/layers.0.up.weight"), found(tensor="layers.7.up.bias")

    assert issue_id(first) == issue_id(second)


def test_a_line_of_the_script_is_no_layer():
    first, moved = found(tensor="train.py:41"), found(tensor="train.py:43")

    assert place_of(first) == ""
    assert issue_id(first) == issue_id(moved) != issue_id(found(tensor="data.py:41"))
    assert place_of(found(tensor="layers.py.0")) == "layers.py.*"


def test_cause_place_and_line_each_make_another_issue():
    ids = {
        issue_id(found(tensor="layers.0.up")),
        issue_id(found(tensor="layers.0.down")),
        issue_id(found(rule="DeadRelu", tensor="layers.0.up")),
        issue_id(found(tensor="layers.0.up"), "train.py:31"),
    }

    assert len(ids) == 4


def test_steps_values_and_workers_do_not():
    one = found(tensor="up", step=1, worker="worker_0", value=0.1, message="a", time=1.0)
    other = found(tensor="up", step=900, worker="worker_7", value=0.2, message="b", time=2.0)

    assert issue_id(one) == issue_id(other)


def test_a_diagnosis_has_the_issue_of_its_first_finding():
    early, late = found(tensor="a.0", step=3), found(tensor="b.0", step=7)

    [diagnosis] = diagnose([late, early])

    assert issue_id(diagnosis) == issue_id(early) != issue_id(late)


def test_the_machine_has_no_place():
    one = found(rule="LowGPUUtilization", is_profiler=True, tensor="gpu0")
    other = found(rule="LowGPUUtilization", is_profiler=True, tensor="gpu1")

    assert issue_id(one) == issue_id(other) == id_of("LowGPUUtilization", "")


def test_an_id_names_its_version_and_never_changes_by_chance():
    assert VERSION == 1
    assert id_of("VanishingGradient", "layers.*.mlp.up") == "1-318157813451"


@pytest.mark.parametrize(
    ("reason", "cause", "line"),
    [
        (
            "ValueError: no, at train.py:41 in main: y = f(x) (exit code 1)",
            "ValueError",
            "train.py:41",
        ),
        (
            "algo-2: torch.cuda.OutOfMemoryError: CUDA, at src/a.py:7 in <module> (exit code 1)",
            "OutOfMemoryError",
            "src/a.py:7",
        ),
        (
            "RuntimeError: x, at a.py:3 in f, caused by KeyError: 'y', at b.py:9",
            "RuntimeError",
            "a.py:3",
        ),
        ("Out of memory: the script was killed by the kernel (SIGKILL)", "OutOfMemory", ""),
        ("The script crashed with SIGSEGV after 1.0 s: native code", "SIGSEGV", ""),
        ("No space left on device. The disk of '/x' is full", "DiskFull", ""),
        ("train.py: error: unrecognized arguments: --foo (exit code 2)", "ScriptFailed", ""),
        ("<script>alert(1)</script>\x1b[1m", "ScriptFailed", ""),
        ("", "ScriptFailed", ""),
    ],
)
def test_a_failure_has_a_cause_and_a_line(reason: str, cause: str, line: str):
    failure = failure_of(reason)
    assert (failure.cause, failure.line) == (cause, line)


def test_failures_of_one_line_are_one_issue_though_it_moved():
    one = failure_of("KeyError: 'a', at train.py:41 in main: y = d[k] (exit code 1)")
    moved = failure_of("KeyError: 'b', at train.py:57 in main: y = d[k] (exit code 1)")
    other = failure_of("KeyError: 'a', at train.py:41 in main: z = d[k] (exit code 1)")
    assert one.issue == moved.issue != other.issue


def test_failures_without_a_line_are_told_apart_by_their_text_without_its_values():
    first = failure_of("The script ended after 3.1 s. Last line: no file '/a/b'")
    second = failure_of("The script ended after 12 s. Last line: no file '/c'")
    other = failure_of("The script ended after 12 s. Last line: killed")
    assert first.issue == second.issue != other.issue
