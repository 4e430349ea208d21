"""Prints findings on standard output."""

from collections.abc import Sequence

from trackside.cli.terminal import Terminal
from trackside.records.finding import Finding
from trackside.sdk.finding_lines import FindingFormatter


def finding_formatter() -> FindingFormatter:
    """Coloured and wrapped on a terminal, plain elsewhere."""
    terminal = Terminal.of_stdout()
    if not terminal.is_terminal:
        return FindingFormatter()
    return FindingFormatter(
        columns=terminal.width, paint=_stand_out if terminal.has_colours else None
    )


def _stand_out(text: str) -> str:
    return f"\x1b[1;33m{text}\x1b[0m"


def diagnosis_text(found: Sequence[Finding], formatter: FindingFormatter) -> str:
    """The diagnosis from the check-up's findings; "" if it found nothing."""
    if not found:
        return ""
    from trackside.rules.checkup.diagnosis import diagnose, is_of_checkup

    return formatter.diagnoses(diagnose(filter(is_of_checkup, found)))
