"""A report as one page that opens from disk: no network, no other file."""

import time
from collections.abc import Sequence
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
        "Findings": report_findings.findings_section(material),
        "Curves": report_curves.curves_section(material),
        "Vitals": report_curves.vitals_section(material),
        "Layers": report_heatmaps.layers_section(material),
        "Machine": report_curves.machine_section(material)
        or report_profile.samples_section(material.profile),
        "Step times": report_profile.steps_section(material.profile),
        "Use of resources": report_profile.usage_section(material.profile),
        "Rules": report_findings.rules_section(material),
        "Not captured": report_sections.gaps_section(material.gaps),
    }
    return _page(material, {title: each for title, each in sections.items() if each is not None})


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
        head, found, profile=profile, profiler_rules=rules, made=_stamp(end or time.time())
    )
    sections = {
        "Findings": report_findings.findings_section(material),
        "Machine": report_profile.samples_section(profile),
        "Step times": report_profile.steps_section(profile),
        "Use of resources": report_profile.usage_section(profile),
        "Rules": report_findings.rules_section(material),
    }
    return _page(material, {title: each for title, each in sections.items() if each is not None})


def _page(material: Material, sections: dict[str, Html]) -> bytes:
    anchors = [element("a", title, href=f"#{_ANCHORS[title]}") for title in sections]
    body = element(
        "main",
        report_sections.head_section(material.head, material.made),
        element("nav", *anchors),
        *sections.values(),
        element(
            "footer", "Made by Trackside. This page loads nothing: keep it, send it, print it."
        ),
    )
    style, script = (_ASSETS.joinpath(name).read_text() for name in ("report.css", "report.js"))
    return document(material.head.name, body, style=style, script=script)


_ANCHORS = {
    "Findings": "findings",
    "Curves": "curves",
    "Vitals": "vitals",
    "Layers": "layers",
    "Machine": "machine",
    "Step times": "steps",
    "Use of resources": "usage",
    "Rules": "rules",
    "Not captured": "gaps",
}


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
