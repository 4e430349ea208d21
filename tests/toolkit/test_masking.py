from trackside.toolkit.masking import mask_arguments, mask_text


def test_arguments_keep_their_names_and_lose_their_secrets():
    arguments = ["--api_key", "abc", "--lr", "0.1", "--url", "https://me:pw@host/x"]
    assert mask_arguments(arguments) == [
        *("--api_key", "***", "--lr", "0.1", "--url", "https://***@host/x"),
    ]


def test_short_values_do_not_hide_words_of_a_message():
    assert mask_text("the answer is yes", ["yes"]) == "the answer is yes"
    assert mask_text("rejected: longer-secret", ["longer-secret"]) == "rejected: ***"
