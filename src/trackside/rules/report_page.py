"""A report as one page that opens from disk: no network, no other file."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files

from trackside.finding import Finding
from trackside.rules import (
    report_curves,
    report_findings,
    report_heatmaps,
    report_profile,
    report_sections,
)
from trackside.rules.profile import Profile
from trackside.rules.profiler_rule import ProfilerRule
from trackside.rules.report_facts import Head, Material
from trackside.rules.report_markup import Html, document, element

_ASSETS = files("trackside.rules")


def report_page(material: Material) -> bytes:
    """Everything there is about a job."""
    count = ("findings", f"{len(material.findings):,}")
    head = replace(material.head, facts=[count, *material.head.facts])
    material = replace(material, head=head)
    sections = {
        "findings": ("Findings", report_findings.findings_section(material)),
        "curves": ("Curves", report_curves.curves_section(material)),
        "vitals": ("Vitals", report_curves.vitals_section(material)),
        "layers": ("Layers", report_heatmaps.layers_section(material)),
        "machine": (
            "Machine",
            report_curves.machine_section(material)
            or report_profile.samples_section(material.profile),
        ),
        "steps": ("Step times", report_profile.steps_section(material.profile)),
        "usage": ("Use of resources", report_profile.usage_section(material.profile)),
        "rules": ("Rules", report_findings.rules_section(material)),
        "gaps": ("Not captured", report_sections.gaps_section(material.gaps)),
    }
    return sections_page(material.head, material.made, sections)


def profiler_page(
    profile: Profile, found: Sequence[Finding], rules: Sequence[ProfilerRule]
) -> bytes:
    """The profiler's part alone: what ProfilerReport leaves beside its JSON."""
    end = profile.last_time or 0.0
    facts = [
        ("nodes", f"{len(profile.nodes)}"),
        ("watched for", report_sections.span(end - (profile.first_time or end))),
        ("looks", f"{sum(len(table.times) for table in profile.nodes.values()):,}"),
    ]
    status = "IssuesFound" if found else "NoIssuesFound"
    head = Head("Profiler report", status if profile.is_all else "InProgress", facts)
    material = Material(
        head, found, profile=profile, profiler_rules=rules, made=stamp(end or time.time())
    )
    sections = {
        "findings": ("Findings", report_findings.findings_section(material)),
        "machine": ("Machine", report_profile.samples_section(profile)),
        "steps": ("Step times", report_profile.steps_section(profile)),
        "usage": ("Use of resources", report_profile.usage_section(profile)),
        "rules": ("Rules", report_findings.rules_section(material)),
    }
    return sections_page(material.head, material.made, sections)


def sections_page(head: Head, made: str, sections: Mapping[str, tuple[str, Html | None]]) -> bytes:
    """Of sections by their anchors, with their titles; those that are None are left out."""
    shown = {anchor: each for anchor, each in sections.items() if each[1] is not None}
    body = element(
        "main",
        report_sections.head_section(head, made),
        element("nav", *(element("a", title, href=f"#{at}") for at, (title, _) in shown.items())),
        *(content for _, content in shown.values()),
        element(
            "footer", "Made by Trackside. This page loads nothing: keep it, send it, print it."
        ),
    )
    style, script = (_ASSETS.joinpath(name).read_text() for name in ("report.css", "report.js"))
    return document(head.name, body, style=style, script=script)


def stamp(seconds: float) -> str:
    """When, for people."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
