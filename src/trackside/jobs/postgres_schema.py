"""Tables and migrations of the shared database: the index of jobs, a team's access keys
(`api/team_keys`), and what people have said about issues (`views/issue_states`).
"""

from typing import Any

import psycopg

from trackside.errors import DatabaseRefused

_MIGRATION_LOCK = 0x7472_6163_6B73
"""Our own advisory lock: of several servers that start together, one migrates."""

MIGRATIONS = (
    """
    CREATE TABLE jobs (
        name TEXT COLLATE "C" PRIMARY KEY,
        output TEXT NOT NULL,
        status TEXT COLLATE "C" NOT NULL,
        secondary TEXT NOT NULL,
        created DOUBLE PRECISION NOT NULL,
        modified DOUBLE PRECISION NOT NULL,
        training_started DOUBLE PRECISION,
        ended DOUBLE PRECISION,
        attempt INTEGER NOT NULL DEFAULT 1,
        home TEXT NOT NULL DEFAULT '',
        claim TEXT,
        stop_asked DOUBLE PRECISION
    );
    CREATE INDEX jobs_by_creation ON jobs (created, name);
    CREATE INDEX jobs_by_status ON jobs (status, created, name);
    CREATE INDEX jobs_by_modification ON jobs (modified, name);
    CREATE INDEX jobs_by_lower_name ON jobs (lower(name) COLLATE "C");
    CREATE INDEX jobs_unfinished ON jobs (home) WHERE ended IS NULL;
    """,
    """
    ALTER TABLE jobs ADD COLUMN owner TEXT COLLATE "C";
    CREATE INDEX jobs_by_owner ON jobs (owner, created, name);
    """,
    """
    CREATE TABLE access_keys (
        id TEXT COLLATE "C" PRIMARY KEY,
        record TEXT NOT NULL
    );
    CREATE TABLE team_key (
        is_only BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (is_only),
        proof TEXT NOT NULL
    );
    """,
    """
    CREATE TABLE issue_states (
        id TEXT COLLATE "C" PRIMARY KEY,
        said TEXT NOT NULL
    );
    """,
)
"""Each upgrades the schema by one version. Never edited, only appended to."""


def migrate(connection: psycopg.Connection[Any], address: str) -> None:
    """Create the schema `trackside`, or upgrade it to the newest version."""
    if _version(connection) == len(MIGRATIONS):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
        version = _version(connection)  # another server may have been faster
        if version > len(MIGRATIONS):
            raise DatabaseRefused(
                address,
                f"its format {version} is of a newer Trackside; this one knows {len(MIGRATIONS)}",
            )
        if version == 0:
            connection.execute("CREATE SCHEMA IF NOT EXISTS trackside")
            connection.execute("SET LOCAL search_path TO trackside")
            connection.execute("CREATE TABLE IF NOT EXISTS schema_version (number INTEGER)")
        for script in MIGRATIONS[version:]:
            connection.execute(script)
        connection.execute("DELETE FROM schema_version")
        connection.execute("INSERT INTO schema_version VALUES (%s)", (len(MIGRATIONS),))


def _version(connection: psycopg.Connection[Any]) -> int:
    # to_regclass() would answer from a cache that another server's migration has not reached yet.
    found = connection.execute(
        "SELECT 1 FROM pg_tables WHERE schemaname = 'trackside' AND tablename = 'schema_version'"
    ).fetchone()
    if found is None:
        return 0
    row = connection.execute("SELECT number FROM trackside.schema_version").fetchone()
    return 0 if row is None else int(row[0])
