"""Texts of the first batch of a language model, with what is trained on marked."""

from trackside.capture.reading.anatomy import AnatomyFile
from trackside.rules.report.facts import Material
from trackside.rules.report.markup import Html, element
from trackside.rules.report.sections import section

_KINDS = {
    "trained": "trained on",
    "given": "only read",
    "special": "special token, only read",
    "special trained": "special token, trained on",
    "padding": "padding",
}


def texts_section(material: Material) -> Html | None:
    if material.trial is None or material.trial.is_smdebug:
        return None
    anatomy = AnatomyFile(material.trial.location).read()
    if anatomy is None or anatomy.text is None or not anatomy.text.shown:
        return None
    text = anatomy.text
    legend = element("p", *(_piece(kind, name) for kind, name in _KINDS.items()), class_="legend")
    rows = [element("li", *(_piece(kind, part) for kind, part in row)) for row in text.shown]
    about = (
        "The first texts that the model was given. Of the tokens of its first batches "
        f"{text.num_trained:,} of {text.num_tokens:,} are trained on."
    )
    card = element("div", legend, element("ol", *rows, class_="texts"), class_="card")
    return section("texts", "First texts", about, card)


def _piece(kind: str, text: str) -> Html:
    known = kind if kind in _KINDS else "given"
    tag = "mark" if known.endswith("trained") else "span"
    return element(tag, text, class_=f"piece {known}", title=_KINDS[known])
