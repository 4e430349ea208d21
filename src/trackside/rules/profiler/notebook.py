"""The profiler's report as a notebook: what was found, and the figures to go on from."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from trackside.records.finding import Finding
from trackside.rules.checkup.diagnosis import diagnose

_READ = """import json
from pathlib import Path

files = Path("profiler-reports").glob("*.json")
reports = {path.stem: json.loads(path.read_text()) for path in files}
reports["OverallSystemUsage"]["Details"]"""
_SHOW = """from IPython.display import IFrame

IFrame("profiler-report.html", width="100%", height=900)"""


def notebook(found: Sequence[Finding], reports: Mapping[str, Any]) -> bytes:
    """In nbformat 4; to be opened beside the page and the folder of JSON reports."""
    lines = ["# Profiler report", ""]
    told = [f"1. **{each.cause}**: {_plain(each.message)}" for each in diagnose(found)]
    lines += told or ["Nothing found."]
    lines += ["", "| rule | triggered | data points |", "|---|---|---|"]
    lines += [
        f"| {name} | {report['RuleTriggered']} | {report['Datapoints']} |"
        for name, report in reports.items()
    ]
    cells = [_cell("markdown", "\n".join(lines)), _cell("code", _READ), _cell("code", _SHOW)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    document = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": kernel},
        "cells": [{"id": f"cell-{place}", **cell} for place, cell in enumerate(cells)],
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.splitlines(True)}
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}


def _plain(text: str) -> str:
    """Markdown may hold HTML; what a job is called must not."""
    return text.replace("&", "&amp;").replace("<", "&lt;")
