"""smdebug's time units, and the conversions that profiler scripts import."""

from datetime import UTC, datetime
from enum import Enum


class TimeUnits(Enum):
    SECONDS = 1
    MILLISECONDS = 2
    MICROSECONDS = 3
    NANOSECONDS = 4


_NANOSECONDS = {
    TimeUnits.SECONDS: 10**9,
    TimeUnits.MILLISECONDS: 10**6,
    TimeUnits.MICROSECONDS: 10**3,
    TimeUnits.NANOSECONDS: 1,
}
_TRUE = frozenset({"y", "yes", "t", "true", "on", "1"})
_FALSE = frozenset({"n", "no", "f", "false", "off", "0"})


def str2bool(v: bool | str) -> bool:
    """For `argparse`: `True`, `yes`, `1` and the like; ValueError for any other text."""
    text = str(v).lower()
    if text not in _TRUE | _FALSE:
        raise ValueError(f"{v!r} is neither true nor false. Give one of true, false, yes, no.")
    return text in _TRUE


def convert_utc_timestamp_to_nanoseconds(
    timestamp: float, unit: TimeUnits = TimeUnits.MICROSECONDS
) -> int:
    return int(timestamp * _NANOSECONDS[unit])


def convert_utc_timestamp_to_microseconds(
    timestamp: float, unit: TimeUnits = TimeUnits.MICROSECONDS
) -> int:
    return int(timestamp * _NANOSECONDS[unit] / 1000)


def convert_utc_timestamp_to_seconds(
    timestamp: float, unit: TimeUnits = TimeUnits.MICROSECONDS
) -> int:
    return int(timestamp * _NANOSECONDS[unit] / 10**9)


def convert_utc_datetime_to_nanoseconds(timestamp_datetime: datetime) -> int:
    return int(timestamp_datetime.timestamp() * 10**9)


def convert_utc_datetime_to_microseconds(timestamp_datetime: datetime) -> int:
    return int(timestamp_datetime.timestamp() * 10**6)


def us_since_epoch_to_human_readable_time(us_since_epoch: float) -> str:
    return datetime.fromtimestamp(us_since_epoch / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%S:%f")


def ns_since_epoch_to_human_readable_time(ns_since_epoch: float) -> str:
    return us_since_epoch_to_human_readable_time(ns_since_epoch / 1000)
