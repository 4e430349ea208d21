"""What somebody may do with the jobs of a server."""

from enum import StrEnum


class Rights(StrEnum):
    """Each includes those before it."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"

    def allow(self, needed: "Rights") -> bool:
        return _ORDER[self] >= _ORDER[needed]


_ORDER = {rights: number for number, rights in enumerate(Rights)}
