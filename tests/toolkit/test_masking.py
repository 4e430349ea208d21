from trackside.toolkit.masking import mask_arguments


def test_arguments_keep_their_names_and_lose_their_secrets():
    arguments = ["--api_key", "abc", "--lr", "0.1", "--url", "https://me:pw@host/x"]
    assert mask_arguments(arguments) == [
        *("--api_key", "***", "--lr", "0.1", "--url", "https://***@host/x"),
    ]
