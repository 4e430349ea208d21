"""The texts of a language model's first batch, as the page gets them."""

from trackside.capture.reading.anatomy import TextFacts
from trackside.records.finding import Finding
from trackside.views.job.evidence import texts_of as rests_on_texts
from trackside.views.job.first_texts import MOST_CHARACTERS, MOST_ROWS, texts_of


def test_rows_are_pieces_with_what_they_are():
    row = (("special", "<s>"), ("given", "why?"), ("trained", " so"), ("special trained", "</s>"))
    shown = texts_of(TextFacts("Llama", num_tokens=9, num_trained=2, shown=(row,)))
    assert shown == {
        "model": "Llama",
        "num_tokens": 9,
        "num_trained": 2,
        "rows": [[list(piece) for piece in row]],
    }


def test_rows_and_their_length_are_bounded():
    long = (("given", "a" * MOST_CHARACTERS), ("trained", "b"))
    rows = texts_of(TextFacts(shown=(long,) * 20))["rows"]
    assert len(rows) == MOST_ROWS
    assert rows[0] == [["given", "a" * MOST_CHARACTERS]]


def test_a_finding_about_texts_is_shown_by_them():
    assert rests_on_texts(Finding(rule="PromptTrained", message=""))
    assert not rests_on_texts(Finding(rule="LearningRateZero", message=""))
