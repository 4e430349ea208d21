import numpy as np

from tests.rules.recording import Recording
from tests.wait import until
from trackside.capture.modes import ModeKeys
from trackside.capture.selection.collection import CollectionManager
from trackside.capture.trial import create_trial
from trackside.capture.writing.writer import WriterLimits
from trackside.rules.saved.evidence import Evidence, Selection

GRADIENTS = Selection(("gradients",))


def test_each_check_shows_only_what_is_new(tmp_path):
    recording = Recording(tmp_path, limits=WriterLimits(age_seconds=0.01))
    recording.step(0, {"gradient/a": [1.0], "a": [2.0]})
    evidence = Evidence(create_trial(str(tmp_path)))
    until(evidence.advance)
    assert evidence.steps == (0,)
    assert evidence.names(GRADIENTS) == ("gradient/a",)
    assert not evidence.advance()
    assert len(evidence.steps) == 0
    recording.step(5, {"gradient/a": [-3.0], "gradient/b": [7.0]}, mode="EVAL")
    until(evidence.advance)
    cube = evidence.figures(evidence.names(GRADIENTS), "abs_mean")
    assert (cube.steps, cube.names) == ((5,), ("gradient/a", "gradient/b"))
    assert cube.values.tolist() == [[3.0, 7.0]]
    assert evidence.mode(5) is ModeKeys.EVAL
    assert evidence.modes().tolist() == [ModeKeys.EVAL.value]
    recording.end()
    until(evidence.advance)
    assert evidence.is_all
    assert not evidence.advance()


def test_a_second_rule_gets_the_arrays_of_the_first(tmp_path):
    recording = Recording(tmp_path)
    recording.step(0, {"gradient/a": [1.0]})
    evidence = Evidence(recording.end())
    evidence.advance()
    assert evidence.figures(("gradient/a",), "mean") is evidence.figures(("gradient/a",), "mean")
    value = evidence.values("gradient/a", 0)
    assert value is not None
    assert value.tolist() == [1.0]
    assert evidence.values("gradient/a", 1) is None


def test_some_of_the_tensors_another_rule_has_read_are_not_read_again(tmp_path):
    recording = Recording(tmp_path)
    recording.step(0, {"a": [1.0], "b": [2.0], "c": [3.0]})
    recording.step(1, {"b": [4.0]})
    evidence = Evidence(recording.end())
    evidence.advance()
    evidence.figures(("a", "b", "c"), "mean")
    for path in tmp_path.rglob("*.safetensors"):
        path.unlink()
    cube = evidence.figures(("c", "a"), "mean")
    assert (cube.steps, cube.names, cube.values.tolist()) == ((0,), ("c", "a"), [[3.0, 1.0]])
    assert cube.saved.all()


def test_steps_of_which_only_vitals_were_saved_are_news_too(tmp_path):
    recording = Recording(tmp_path)
    recording.step(0, {"a": [1.0]})
    recording.step(1, {"vitals/loss": [1.0]})
    evidence = Evidence(recording.end())
    evidence.advance()
    assert evidence.steps == (0, 1)
    assert evidence.names(Selection()) == ("a",)
    assert evidence.figures(("a",), "mean").steps == (0,)


def test_a_selection_is_the_union_of_collections_and_patterns(tmp_path):
    recording = Recording(tmp_path, collections={"mine": "^x"})
    recording.step(0, dict.fromkeys(["x1", "y1", "z1"], [1.0]))
    evidence = Evidence(recording.end())
    evidence.advance()
    assert evidence.names(Selection(("mine",), ("^y",))) == ("x1", "y1")
    assert evidence.names(Selection()) == ("x1", "y1", "z1")


def test_a_tensor_that_joins_a_collection_is_selected_from_then_on(tmp_path):
    recording = Recording(tmp_path, limits=WriterLimits(age_seconds=0.005))
    recording.step(0, {"mine": [1.0]})
    evidence = Evidence(create_trial(str(tmp_path)))
    until(evidence.advance)
    assert evidence.names(Selection(("losses",))) == ()
    manager = CollectionManager()
    manager.get("losses").include(["mine"])
    recording.put_collections(manager)
    recording.step(1, {"mine": [0.5]})
    until(evidence.advance)
    assert evidence.names(Selection(("losses",))) == ("mine",)
    recording.close()


def test_what_is_not_saved_is_reported_with_nearest_names_and_a_way_out(tmp_path):
    recording = Recording(tmp_path)
    recording.step(0, {"net.relu1_output_0": np.ones(3), "CrossEntropyLoss_output_0": [1.0]})
    evidence = Evidence(recording.end())
    evidence.advance()
    reported = evidence.missing(Selection(("relu_output",), (".*relu_output",)))
    assert "No tensor of collection 'relu_output' or pattern '.*relu_output' is saved." in reported
    assert "net.relu1_output_0" in reported
    assert "CollectionConfig('relu_output', {'include_regex': '.*relu_output'})" in reported
