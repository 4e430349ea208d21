"""Who takes mail and calls, for a test."""

from collections.abc import Iterator

import pytest

from tests.rules.action.receivers import Hooks, Mailbox, mail_server, web_server
from trackside.rules.action import deliveries


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes mail and calls here may stand still for a while."""
    monkeypatch.setattr(deliveries, "TRY_SECONDS", 100.0)


@pytest.fixture
def mailbox() -> Iterator[tuple[Mailbox, dict[str, str]]]:
    box = Mailbox()
    with mail_server(box) as settings:
        yield box, {**settings, "TRACKSIDE_SMTP_SECURITY": "none"}


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    with web_server() as server:
        yield server
