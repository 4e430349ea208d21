import re

import pytest

from trackside.capture.exceptions import SMDebugTypeError, SMDebugValueError
from trackside.capture.modes import ModeKeys
from trackside.capture.selection.save_config import SaveConfig, SaveConfigMode


@pytest.mark.parametrize(
    ("settings", "saved"),
    [
        ({}, [0, 500, 1000]),
        ({"save_interval": 100, "end_step": 200}, [0, 100]),
        ({"save_interval": 400, "start_step": 150}, [400, 800]),
        ({"save_steps": [3, 7]}, [0, 3, 7, 500, 1000]),
        ({"save_interval": 100, "end_step": 0}, []),
        ({"save_steps": [900], "end_step": 0}, [900]),
        ({"save_interval": "250", "start_step": "1", "end_step": "501"}, [250, 500]),
    ],
)
def test_the_saved_steps_are_those_of_the_table(settings, saved):
    config = SaveConfig(**settings)

    assert [s for s in range(1001) if config.should_save_step(ModeKeys.TRAIN, s)] == saved


@pytest.mark.parametrize(
    "settings",
    [
        {"save_interval": "often"},
        {"save_interval": 0},
        {"start_step": 1.5},
        {"end_step": True},
        {"save_steps": "1,2"},
        {"save_steps": ["1"]},
        {"save_steps": (1, 2)},
    ],
)
def test_a_setting_of_the_wrong_kind_is_refused_by_value(settings):
    with pytest.raises(SMDebugValueError, match=re.escape(repr(next(iter(settings.values()))))):
        SaveConfigMode(**settings)


def test_unnamed_modes_are_filled_from_the_default():
    config = SaveConfig({ModeKeys.EVAL: SaveConfigMode(save_interval=3)})
    config.merge_default_save_config(SaveConfig(save_interval=10))

    assert config.get_save_config(ModeKeys.EVAL).save_interval == 3
    assert config.get_save_config(ModeKeys.TRAIN).save_interval == 10


def test_json_comes_back_as_the_same_configuration():
    config = SaveConfig(save_interval=7, start_step=2, end_step=90, save_steps=[1, 3])

    assert SaveConfig.from_json(config.to_json()) == config
    assert config.to_json_dict()["TRAIN"] == {
        "save_interval": 7,
        "save_steps": [1, 3],
        "start_step": 2,
        "end_step": 90,
    }


@pytest.mark.parametrize(
    "given",
    [
        None,
        SaveConfig(),
        SaveConfigMode(),
        {ModeKeys.TRAIN: SaveConfigMode()},
        {"TRAIN": {"save_interval": 500}},
    ],
)
def test_every_accepted_form_means_the_default_here(given):
    assert SaveConfig.parse(given).get_save_config(ModeKeys.TRAIN) == SaveConfigMode()


@pytest.mark.parametrize(
    ("given", "error"),
    [(5, SMDebugTypeError), ({"LEARN": {}}, SMDebugValueError), ({"TRAIN": 5}, SMDebugTypeError)],
)
def test_other_forms_are_refused(given, error):
    with pytest.raises(error):
        SaveConfig.parse(given)


def test_modes_and_plain_settings_together_are_refused():
    with pytest.raises(SMDebugValueError, match="exclude each other"):
        SaveConfig({ModeKeys.TRAIN: SaveConfigMode()}, save_interval=3)
