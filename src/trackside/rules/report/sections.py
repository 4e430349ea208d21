"""Building blocks of a report's sections, its head, and the list of what is missing.

A section is a function from what there is to markup, or to None.
"""

from collections.abc import Sequence

from trackside.rules.report.charts import stretch_bar
from trackside.rules.report.facts import Fact, Head, Place
from trackside.rules.report.markup import Html, element, joined, prose

STYLES = {
    "Completed": "good",
    "NoIssuesFound": "good",
    "Failed": "bad",
    "IssuesFound": "bad",
    "Error": "bad",
    "Stopped": "warn",
    "Stopping": "warn",
    "InProgress": "busy",
}

_LAST_LINES = 8
"""Lines of a failure's text that are not folded."""


def section(anchor: str, title: str, about: str, *parts: Html | None) -> Html:
    return element("section", element("h2", title, id=anchor), element("p", about), *parts)


def tiles(facts: Sequence[Fact]) -> Html:
    each = [
        element(
            "div",
            element("b", fact.text, class_=fact.style or None),
            element("span", fact.label),
            class_="tile",
        )
        for fact in facts
    ]
    return element("div", *each, class_="tiles")


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str | Html]], *, numbers: int = 0
) -> Html:
    """`numbers`: how many of the last columns are numeric."""
    first = len(headings) - numbers

    def cells(kind: str, row: Sequence[str | Html]) -> Html:
        return joined(
            element(kind, text, class_="number" if place >= first else None)
            for place, text in enumerate(row)
        )

    body = [element("tr", cells("td", row)) for row in rows]
    whole = element(
        "table", element("thead", element("tr", cells("th", headings))), element("tbody", *body)
    )
    return element("div", whole, class_="scroll")


def head_section(head: Head, made: str) -> Html:
    pill = element("span", head.status, class_=f"pill {STYLES.get(head.status, 'quiet')}")
    when = f"As of {made}; the job is still running." if head.is_running else f"Report of {made}."
    phases = None
    if head.phases:
        labels = [span(seconds) for _, seconds in head.phases]
        phases = element("div", stretch_bar(head.phases, labels), class_="card")
    settings = None
    if head.hyperparameters:
        rows = [(key, element("code", value)) for key, value in head.hyperparameters.items()]
        settings = element(
            "details",
            element("summary", counted(len(rows), "hyperparameter")),
            table(("name", "value"), rows),
        )
    title = element("h1", head.name, pill)
    return element(
        "header",
        title,
        element("p", when),
        element("p", prose(head.sentence), class_="sentence") if head.sentence else None,
        tiles(head.facts),
        phases,
        _failure(head),
        settings,
    )


def _failure(head: Head) -> Html | None:
    """The reason and the last lines of the text; earlier lines are folded."""
    if not head.failure:
        return None
    lines = head.failure.splitlines()
    before, last = "\n".join(lines[:-_LAST_LINES]), "\n".join(lines[-_LAST_LINES:])
    cause = element("p", element("b", head.cause), class_="bad") if head.cause else None
    if head.cause == head.failure:
        return cause
    folded = None
    if before:
        label = f"{counted(len(lines) - _LAST_LINES, 'line')} before"
        folded = element("details", element("summary", label), element("pre", before))
    return joined([cause, folded, element("pre", last, class_="bad")])


def files_section(places: Sequence[Place]) -> Html | None:
    if not places:
        return None
    rows = [(place.what, element("code", place.where)) for place in places]
    about = "The job's outputs, and the commands that fetch them."
    content = element("div", table(("what", "where"), rows), class_="card")
    return section("files", "Files", about, content)


def gaps_section(gaps: Sequence[str]) -> Html | None:
    if not gaps:
        return None
    items = element("ul", *[element("li", gap) for gap in gaps], class_="gaps")
    about = "What this page could not show, and how to get it next time."
    return section("gaps", "Not captured", about, element("div", items, class_="card"))


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def span(seconds: float) -> str:
    """`340 ms`, `8.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours} h {minutes_left} min" if hours else f"{minutes} min {rest} s"
