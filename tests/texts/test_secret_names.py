"""Which names and values are taken for secrets."""

import pytest

from trackside.errors import InvalidSetting, InvalidSpec
from trackside.records.spec import JobSpec
from trackside.settings import Settings
from trackside.texts.secret_names import (
    hidden,
    hide_in_arguments,
    looks_secret,
    mask_code,
    mask_text,
    names_a_user,
    secrets_in_arguments,
)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "api_key",
            "API_KEY",
            "wandb-api-key",
            "hubToken",
            "hub_token",
            "password",
            "db.password",
        ),
        *("AWS_SECRET_ACCESS_KEY", "client_secret", "privateKey", "credentials", "apikey", "--key"),
        *("PGPASSWORD", "MYSQL_PWD", "dbpassword"),
    ],
)
def test_names_that_look_secret(name: str):
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens",
        "tokenizer",
        "monkey",
        "keyboard",
        "key_dim",
        "batch-size",
        "lr",
        "PWD",
        "OLDPWD",
        "",
    ],
)
def test_ordinary_names(name: str):
    assert not looks_secret(name)


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        ("postgresql://me:pw@host/db", True),
        ("redis://:pw@host", True),
        ("https://token@host/simple", True),
        ("--index-url https://me:pw@host", True),
        ("https://host/a@b", False),
        ("me@host", False),
        ("", False),
    ],
)
def test_addresses_with_a_user_or_a_password_in_them(value: str, is_one: bool):
    assert names_a_user(value) is is_one


def test_what_is_shown_in_place_of_a_secret():
    assert hidden("api_key", "abc") == "***"
    assert hidden("url", "https://me:pw@host/x") == "https://***@host/x"
    assert hidden("lr", "0.1") == "0.1"


@pytest.mark.parametrize(
    ("given", "shown", "secrets"),
    [
        ("--token abc --lr 1", "--token *** --lr 1", ["abc"]),
        ("--token=abc=d", "--token=***", ["abc=d"]),
        ("hub.token=abc x", "hub.token=*** x", ["abc"]),
        ("--use-token --lr 1", "--use-token --lr 1", []),
        ("token abc", "token abc", []),
        ("--url https://me:pw@host", "--url https://***@host", []),
        ("--max-tokens 3 --token=", "--max-tokens 3 --token=", []),
    ],
)
def test_secrets_among_arguments(given: str, shown: str, secrets: list[str]):
    assert hide_in_arguments(given.split()) == shown.split()
    assert secrets_in_arguments(given.split()) == secrets


def test_a_refused_request_does_not_repeat_its_secrets():
    environment = {"HF_TOKEN": "hush" * 2000, "API_KEY": 4711, "LONG": "long" * 2000}
    with pytest.raises(InvalidSpec) as refused:
        JobSpec.from_request({"TrainingJobName": "job", "Environment": environment})
    reported = str(refused.value)
    assert "Environment.HF_TOKEN = '***': has over" in reported
    assert "hush" not in reported
    assert "4711" not in reported
    assert "longlong" in reported


def test_a_refused_setting_does_not_repeat_its_secret():
    with pytest.raises(InvalidSetting, match=r"TRACKSIDE_SMPT_PASSWORD' = '\*\*\*'"):
        Settings.load({"TRACKSIDE_SMPT_PASSWORD": "hush"})


def test_short_values_do_not_hide_words_of_a_message():
    assert mask_text("the answer is yes", ["yes"]) == "the answer is yes"
    assert mask_text("rejected: longer-secret", ["longer-secret"]) == "rejected: ***"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('+API_KEY = "abc def"', '+API_KEY = "***"'),
        ("-    hub_token='x'  # old", "-    hub_token='***'  # old"),
        ('+  "password": "hunter2",', '+  "password": "***",'),
        ('+os.environ["HF_TOKEN"] = "hush"', '+os.environ["HF_TOKEN"] = "***"'),
        ("+DB_PASSWORD=hunter", "+DB_PASSWORD=***"),
        ("+password: hunter22", "+password: ***"),
        ("+connect('postgresql://me:pw@host/db')", "+connect('postgresql://***@host/db')"),
        (" x = 'hf_abcdefghijklmnopqrstuvwxyz'", " x = '***'"),
        (" AKIAIOSFODNN7EXAMPLE", " ***"),
        ("+items.sort(key=lambda each: each.size)", "+items.sort(key=lambda each: each.size)"),
        ("+query, key = split(hidden)", "+query, key = split(hidden)"),
        ("+key = cache_key", "+key = cache_key"),
        ("+max_tokens = 4096", "+max_tokens = 4096"),
        ('+name = "token"', '+name = "token"'),
    ],
)
def test_secrets_in_code_are_masked(line: str, shown: str):
    assert mask_code(line) == shown


def test_private_keys_are_masked_also_when_their_end_is_missing():
    key = "-----BEGIN RSA PRIVATE KEY-----\n+MIIE\n+abc\n"
    assert "MIIE" not in mask_code(f"+{key}+-----END RSA PRIVATE KEY-----\n+x = 1\n")
    assert "x = 1" in mask_code(f"+{key}+-----END RSA PRIVATE KEY-----\n+x = 1\n")
    assert "MIIE" not in mask_code(key)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", ["a" * 300_000, "key=" * 100_000, "-----BEGIN " * 30_000])
def test_long_lines_are_masked_in_proportion_to_their_length(text: str):
    assert mask_code(text)
