"""Texts for users: short times and sizes, formatted records."""

import json
from datetime import datetime
from typing import Any

from trackside.texts.quantities import duration as duration
from trackside.texts.quantities import size as size


def as_json(record: Any) -> str:
    return json.dumps(record, indent=2, default=_plain)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)
