"""Opens the index of jobs: this home's, or the database in the settings. Each is imported only if
used.
"""

from typing import TYPE_CHECKING

from trackside.errors import MissingExtra
from trackside.settings import Settings

if TYPE_CHECKING:
    from trackside.jobs.catalog import Catalog
    from trackside.jobs.postgres_index import Postgres
    from trackside.jobs.team_catalog import TeamCatalog


def open_catalog(settings: Settings) -> "Catalog | TeamCatalog":
    if not settings.database:
        from trackside.jobs.catalog import Catalog

        return Catalog(settings.layout)
    database = open_database(settings)
    from trackside.jobs.team_catalog import TeamCatalog

    return TeamCatalog(settings.layout, database)


def open_database(settings: Settings) -> "Postgres":
    """Connects at the first query."""
    try:
        from trackside.jobs.postgres_index import Postgres
    except ImportError as error:
        package = error.name or "psycopg"
        raise MissingExtra("A shared database", package, "postgres") from None
    return Postgres(settings.database)
