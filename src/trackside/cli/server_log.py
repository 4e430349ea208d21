"""The server's log on standard error, as text for people or a JSON object on each line."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
_TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def write_log(form: str, *, requests: bool) -> None:
    """For this process, from now on. Without `requests` there is no line for each of them."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == JSON else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    level = logging.INFO if requests else logging.WARNING
    logging.getLogger("trackside.access").setLevel(level)


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        told: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "request", {}),
        }
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)
