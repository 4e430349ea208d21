"""`action_json` as it is really sent."""

import json

import pytest

from trackside.rules.action.actions import (
    Command,
    Email,
    Notify,
    SaveFlightRecorder,
    StopTraining,
    actions_of,
    parse_actions,
)


@pytest.mark.parametrize(
    "text",
    [
        r"[{\"name\": \"stoptraining\", \"training_job_prefix\": \"job-42\"}]",
        '[{"name": "stoptraining", "training_job_prefix": "job-42"}]',
        '{"name": "StopTraining", "training_job_prefix": "job-42"}',
        r"{\"Name\": \"STOPTRAINING\", \"Training_Job_Prefix\": \"job-42\"}",
    ],
)
def test_stop_training_is_read_in_every_spelling(text: str):
    assert parse_actions(text) == (StopTraining("job-42"),)


@pytest.mark.parametrize("text", ["", "None", "[]", "  "])
def test_no_action_is_no_action(text: str):
    assert parse_actions(text) == ()


def test_each_kind_of_action_is_known():
    sent = [
        {"name": "stoptraining"},
        {"name": "email", "endpoint": "first.Last@example.co.uk"},
        {"name": "sms", "endpoint": "+4915112345678"},
        {"name": "command", "command": "notify-send hello"},
        {"name": "save_flight_recorder"},
        {"name": "Slack", "channel": "#training"},
    ]
    assert parse_actions(json.dumps(sent)) == (
        StopTraining(),
        Email("first.Last@example.co.uk"),
        Notify("sms", {"endpoint": "+4915112345678"}),
        Command("notify-send hello"),
        SaveFlightRecorder(),
        Notify("slack", {"channel": "#training"}),
    )


def test_a_webhook_may_name_what_signs_it():
    sent = {"name": "webhook", "url": "https://h.example", "Secret_Variable": "MINE", "to": "me"}
    assert parse_actions(json.dumps(sent)) == (
        Notify("webhook", {"to": "me"}, "https://h.example", "MINE"),
    )


def test_quotes_within_a_command_survive_both_spellings():
    sent = json.dumps([{"name": "command", "command": 'echo "it fired"'}])
    for text in (sent, sent.replace('"', '\\"')):
        assert parse_actions(text) == (Command('echo "it fired"'),)


def test_a_webhook_may_have_an_address_of_its_own():
    sent = '{"name": "webhook", "url": "https://hooks.example.com/T1"}'
    assert parse_actions(sent) == (Notify("webhook", {}, "https://hooks.example.com/T1"),)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[{", "is not JSON"),
        ("[1]", "1, an action without a name"),
        ('[{"endpoint": "a@b"}]', "an action without a name"),
        ('{"name": "email", "endpoint": "nobody"}', "'nobody', which is not a mail address"),
        ('{"name": "email", "endpoint": "a@b.c\\nBcc: x@y.z"}', "which is not a mail address"),
        ('{"name": "command"}', "Give a shell command"),
        ('{"name": "webhook", "url": "file:///etc/passwd"}', "not an http:// or https:// address"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, says: str):
    with pytest.raises(ValueError, match=".") as raised:
        parse_actions(text)
    assert says in str(raised.value)


def test_the_older_parameter_of_stalled_training_stops_too():
    given = {"stop_training_on_fire": "True", "training_job_name_prefix": "night-"}
    assert actions_of(given) == (StopTraining("night-"),)
    assert actions_of({"stop_training_on_fire": "False"}) == ()


def test_the_same_action_twice_is_one():
    twice = '[{"name": "sms", "endpoint": "+1"}, {"name": "SMS", "endpoint": "+1"}]'
    assert len(actions_of({"action_json": twice})) == 1
