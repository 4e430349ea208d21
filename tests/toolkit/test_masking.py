import pytest

from trackside.toolkit.masking import looks_secret, mask_arguments, mask_text


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
    ],
)
def test_names_that_look_secret(name: str):
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "tokenizer", "monkey", "keyboard", "key_dim", "batch-size", "lr", "PWD", ""],
)
def test_ordinary_names(name: str):
    assert not looks_secret(name)


def test_arguments_keep_their_names_and_lose_their_secrets():
    arguments = ["--api_key", "abc", "--lr", "0.1", "--url", "https://me:pw@host/x"]
    assert mask_arguments(arguments) == [
        *("--api_key", "***", "--lr", "0.1", "--url", "https://***@host/x"),
    ]


def test_short_values_do_not_hide_words_of_a_message():
    assert mask_text("the answer is yes", ["yes"]) == "the answer is yes"
    assert mask_text("rejected: longer-secret", ["longer-secret"]) == "rejected: ***"
