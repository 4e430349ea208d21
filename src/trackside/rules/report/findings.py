"""Findings and rule statuses as sections of a report."""

from collections.abc import Iterator, Sequence

from trackside.records.finding import Finding
from trackside.records.rule_status import in_short
from trackside.rules.checkup.diagnosis import Diagnosis, diagnose
from trackside.rules.report.charts import short
from trackside.rules.report.facts import Material
from trackside.rules.report.markup import Html, element, joined, prose
from trackside.rules.report.sections import STYLES, section, table

MOST_FINDINGS = 25
"""Rows in the table of a diagnosis."""
_SURE = {"certain": "bad", "likely": "warn", "possible": "quiet"}


def diagnosis_section(material: Material) -> Html:
    """All findings, grouped by their cause."""
    diagnoses = diagnose(material.findings)
    if not diagnoses:
        result = "No rule has found a problem."
        if not material.evaluations and not material.profiler_rules:
            result = "No rule watched this job, so nothing could be found."
        return section("diagnosis", "Diagnosis", result)
    about = (
        "The likeliest cause comes first. The findings that it explains are folded into it: they "
        "should disappear when it is fixed. Findings that only cost time come last."
    )
    lines = material.lines
    cards = [_card(rank, each, lines.get(each.cause, "")) for rank, each in enumerate(diagnoses, 1)]
    return section("diagnosis", "Diagnosis", about, *cards)


def rules_section(material: Material) -> Html | None:
    rows: list[tuple[str | Html, ...]] = [
        (
            _rule_name(each.configuration, each.rule),
            element("span", str(each.status), class_=STYLES.get(str(each.status), "quiet")),
            in_short(each.details),
            f"{each.num_findings:,}",
        )
        for each in material.evaluations
    ]
    watched = {each.rule for each in material.evaluations}
    if material.profile is not None:
        for rule in material.profiler_rules:
            if rule.name() not in watched and rule.advice:  # without advice: it never fires
                rows.append(
                    _judged_now(rule.name(), rule.missing(material.profile), rule.triggered)
                )
    if not rows:
        return None
    about = "Which rules watched the job, and how far each is."
    headings = ("rule", "status", "details", "findings")
    content = element("div", table(headings, rows, numbers=1), class_="card")
    return section("rules", "Rules", about, content)


def onsets(findings: Sequence[Finding]) -> dict[int, str]:
    """Rules by the step of their first finding."""
    first: dict[str, int] = {}
    for each in findings:
        if each.step is not None:
            first[each.rule] = min(each.step, first.get(each.rule, each.step))
    return {
        step: ", ".join(rule for rule, began in first.items() if began == step)
        for step in sorted(set(first.values()))
    }


def _card(rank: int, diagnosis: Diagnosis, line: str) -> Html:
    first = diagnosis.findings[0]
    since = "" if diagnosis.step is None else f"from step {diagnosis.step:,} on"
    sure = _SURE.get(diagnosis.confidence)
    explained = [element("code", name) for name in diagnosis.explains]
    return element(
        "article",
        element(
            "h3",
            element("span", str(rank), class_="rank"),
            diagnosis.cause,
            element("span", diagnosis.confidence, class_=f"pill {sure}") if sure else None,
            element("small", since),
        ),
        element("p", prose(diagnosis.message)),
        element("p", joined(_chips(first, line)), class_="chips"),
        element("p", prose(diagnosis.advice), class_="advice") if diagnosis.advice else None,
        element("p", "It explains ", joined(explained), class_="explains") if explained else None,
        _all_of(diagnosis.findings) if len(diagnosis.findings) > 1 else None,
        class_="card finding" if first.step is not None else "card finding machine",
    )


def _chips(finding: Finding, line: str) -> Iterator[Html]:
    named = {
        "line": line,
        "step": "" if finding.step is None else f"{finding.step:,}",
        "mode": finding.mode,
        "worker": finding.worker,
        "tensor" if finding.step is not None else "where": finding.tensor,
        "value": "" if finding.value is None else short(finding.value),
        "threshold": "" if finding.threshold is None else short(finding.threshold),
    }
    for label, text in named.items():
        if text:
            yield element("span", f"{label} ", element("code", text))


def _all_of(findings: Sequence[Finding]) -> Html:
    rows = [
        (
            each.rule,
            "" if each.step is None else f"{each.step:,}",
            each.mode,
            element("code", " ".join(filter(None, [each.worker, each.tensor]))),
            prose(each.message),
            "" if each.value is None else short(each.value),
            "" if each.threshold is None else short(each.threshold),
        )
        for each in findings[:MOST_FINDINGS]
    ]
    headings = ("rule", "step", "mode", "where", "what", "value", "threshold")
    all_of_them = f"All {len(findings)} findings"
    if len(findings) > MOST_FINDINGS:
        all_of_them = f"The first {MOST_FINDINGS} of {len(findings):,}"
    return element("details", element("summary", all_of_them), table(headings, rows, numbers=2))


def _rule_name(configuration: str, rule: str) -> Html:
    """The name in the job's configuration, with the rule's own name if it differs."""
    return joined(
        [
            configuration,
            element("span", f" ({rule})", class_="quiet") if rule != configuration else None,
        ]
    )


def _judged_now(rule: str, missing: str, triggered: int) -> tuple[str | Html, ...]:
    """A row for a rule that the job did not configure."""
    if missing:
        return rule, element("span", "nothing to watch", class_="quiet"), missing, "0"
    status = "IssuesFound" if triggered else "NoIssuesFound"
    shown = element("span", status, class_=STYLES[status])
    return rule, shown, "Judged for this report.", f"{triggered:,}"
