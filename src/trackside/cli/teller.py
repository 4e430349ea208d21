"""What rules found, as it is told on standard output."""

from collections.abc import Sequence

from trackside.cli.terminal import Terminal
from trackside.records.finding import Finding
from trackside.sdk.finding_lines import Teller


def new_teller() -> Teller:
    """Coloured and wrapped on a terminal, plain and whole elsewhere."""
    terminal = Terminal.of_stdout()
    if not terminal.is_terminal:
        return Teller()
    return Teller(columns=terminal.width, paint=_stand_out if terminal.has_colours else None)


def _stand_out(text: str) -> str:
    return f"\x1b[1;33m{text}\x1b[0m"


def diagnosis_text(found: Sequence[Finding], teller: Teller) -> str:
    """What the check-up's findings come to; "" where it found nothing."""
    if not found:
        return ""
    from trackside.rules.checkup.diagnosis import diagnose, is_of_checkup

    return teller.diagnoses(diagnose(filter(is_of_checkup, found)))
