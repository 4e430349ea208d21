"""What must be well for a server to do its work: its index, its store, its disk, its upkeep."""

import shutil
from collections.abc import Mapping

from trackside.api.health import Look
from trackside.api.upkeep import Upkeep
from trackside.errors import ObjectNotFound
from trackside.files import disk_space
from trackside.jobs.index import Page
from trackside.jobs.jobs import Jobs
from trackside.storage.locate import locate_object

UPKEEP_LATE_SECONDS = 60.0
_LEAST_FREE_BYTES = 64 << 20
_PROBE = "trackside-health"
"""An object that need not be there: a store that says so is well."""


def looks(jobs: Jobs, upkeep: Upkeep) -> Mapping[str, Look]:
    """By what is looked at; each says what is wrong, or nothing, or raises."""
    settings = jobs.settings

    def database() -> str:
        jobs.page(Page(limit=1))
        return ""

    def store() -> str:
        place = locate_object(
            f"{settings.output.rstrip('/')}/{_PROBE}", home=settings.home, hurried=True
        )
        try:
            place.store.stat(place.key)
        except ObjectNotFound:
            return ""
        return ""

    def disk() -> str:
        if trouble := disk_space.trouble(settings.home):
            return trouble
        free = shutil.disk_usage(settings.home).free
        return "" if free >= _LEAST_FREE_BYTES else f"only {free >> 20} MiB are free"

    def late() -> str:
        age = upkeep.age_seconds
        return "" if age < UPKEEP_LATE_SECONDS else f"jobs were last looked after {age:.0f} s ago"

    return {"database": database, "store": store, "disk": disk, "upkeep": late}
