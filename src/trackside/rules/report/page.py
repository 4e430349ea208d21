"""A report as one self-contained page: no network, no other file."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files

from trackside.records.finding import Finding
from trackside.rules.checkup.diagnosis import diagnose
from trackside.rules.profiler.profiler_rule import ProfilerRule
from trackside.rules.report import curves, findings, first_texts, heatmaps, machine_use, sections
from trackside.rules.report.facts import Fact, Head, Material
from trackside.rules.report.markup import Html, document, element
from trackside.rules.saved.profile import Profile

_ASSETS = files("trackside.rules.report")


def report_page(material: Material) -> bytes:
    """The whole report of a job."""
    head = replace(material.head, facts=[_found(material), *material.head.facts])
    material = replace(material, head=head)
    parts = {
        "diagnosis": ("Diagnosis", findings.diagnosis_section(material)),
        "texts": ("First texts", first_texts.texts_section(material)),
        "curves": ("Curves", curves.curves_section(material)),
        "vitals": ("Vitals", curves.vitals_section(material)),
        "layers": ("Layers", heatmaps.layers_section(material)),
        "machine": (
            "Machine",
            curves.machine_section(material) or machine_use.samples_section(material.profile),
        ),
        "steps": ("Step times", machine_use.steps_section(material.profile)),
        "usage": ("Use of resources", machine_use.usage_section(material.profile)),
        "rules": ("Rules", findings.rules_section(material)),
        "files": ("Files", sections.files_section(material.head.places)),
        "gaps": ("Not captured", sections.gaps_section(material.gaps)),
    }
    return sections_page(material.head, material.made, parts)


def _found(material: Material) -> Fact:
    """The tile with the number of findings, coloured also for completed jobs."""
    number = len(material.findings)
    label = "finding" if number == 1 else "findings"
    if number:
        sure = {each.confidence for each in diagnose(material.findings)}
        is_grave = not sure <= {"likely", "possible"}
        return Fact(label, f"{number:,}", "bad" if is_grave else "warn")
    if not material.evaluations and not material.profiler_rules:
        return Fact("by no rule", "not watched", "quiet")
    return Fact(label, "none so far" if material.head.is_running else "none", "good")


def profiler_page(
    profile: Profile, found: Sequence[Finding], rules: Sequence[ProfilerRule]
) -> bytes:
    """Only the profiler's part, which ProfilerReport writes beside its JSON."""
    end = profile.last_time or 0.0
    facts = [
        Fact("nodes", f"{len(profile.nodes)}"),
        Fact("watched for", sections.span(end - machine_use.first_sample(profile))),
        Fact("samples", f"{sum(len(table.times) for table in profile.nodes.values()):,}"),
    ]
    status = "IssuesFound" if found else "NoIssuesFound"
    head = Head("Profiler report", status if profile.is_all else "InProgress", facts)
    material = Material(
        head, found, profile=profile, profiler_rules=rules, made=stamp(end or time.time())
    )
    parts = {
        "diagnosis": ("Diagnosis", findings.diagnosis_section(material)),
        "machine": ("Machine", machine_use.samples_section(profile)),
        "steps": ("Step times", machine_use.steps_section(profile)),
        "usage": ("Use of resources", machine_use.usage_section(profile)),
        "rules": ("Rules", findings.rules_section(material)),
    }
    return sections_page(material.head, material.made, parts)


def sections_page(head: Head, made: str, parts: Mapping[str, tuple[str, Html | None]]) -> bytes:
    """A page of sections by anchor, with their titles; sections that are None are left out."""
    shown = {anchor: each for anchor, each in parts.items() if each[1] is not None}
    body = element(
        "main",
        sections.head_section(head, made),
        element("nav", *(element("a", title, href=f"#{at}") for at, (title, _) in shown.items())),
        *(content for _, content in shown.values()),
        element(
            "footer", "Made by Trackside. This page loads nothing: keep it, send it, print it."
        ),
    )
    style, script = (_ASSETS.joinpath(name).read_text() for name in ("page.css", "page.js"))
    return document(head.name, body, style=style, script=script)


def stamp(seconds: float) -> str:
    """A time in readable form."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
