"""Which names and values are taken for secrets."""

import pytest

from trackside.secret_names import looks_secret, names_a_user


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
