"""Access keys of this machine's server, for commands that create or need them."""

from pathlib import Path
from typing import TYPE_CHECKING

from trackside.errors import InvalidSetting, MissingExtra, ServerRefused, TracksideError
from trackside.files import damaged_files, durable
from trackside.jobs.team_database import open_database
from trackside.settings import Settings

if TYPE_CHECKING:
    from trackside.api.keys import AccessKeys
    from trackside.api.team_keys import TeamKeys


DEFAULT_LISTEN = "127.0.0.1:7007"
"""The default address of a server on this machine."""


class KeysElsewhere(TracksideError):
    code = "keys_elsewhere"


def access_keys(settings: Settings) -> "AccessKeys":
    """Of this machine or, if configured, of its team. `KeysElsewhere` if its server uses a team's
    keys but these settings do not.
    """
    if settings.team_key_file:
        return _with_extra(settings, _team(settings))
    record = settings.layout.server.team_keys
    if found := damaged_files.read_object(record):
        raise KeysElsewhere(
            f"The access keys of {str(settings.home)!r} are in the database "
            f"{found.get('database', '')!r}. Set TRACKSIDE_DATABASE and TRACKSIDE_TEAM_KEY_FILE as "
            f"for its server, or remove {str(record)!r} to go on with keys in a file."
        )
    return own_keys(settings)


def own_keys(settings: Settings) -> "AccessKeys":
    """Keys in a file of this machine: all, or only this machine's own."""
    return _with_extra(settings, None)


def joined_keys(settings: Settings) -> "AccessKeys":
    """For a server that starts: its team's keys, with those of its file moved there.

    `ServerRefused` without the master key.
    """
    if not settings.team_key_file:
        keys = access_keys(settings)
        if settings.database:
            _check_unshared(settings)
        return keys
    team = _team(settings)
    team.check_key()
    keys = _with_extra(settings, team)
    place = settings.layout.server.team_keys
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # First: a command that creates a key now must not find the file.
    durable.write_json(place, {"database": team.address}, mode=0o600)
    keys.join_team()
    return keys


def _with_extra(settings: Settings, team: "TeamKeys | None") -> "AccessKeys":
    try:
        from trackside.api.keys import AccessKeys
    except ImportError as error:
        raise _missing(error) from None
    return AccessKeys(settings.layout.server.root, team)


def _team(settings: Settings) -> "TeamKeys":
    if not settings.database:
        raise InvalidSetting(
            f"TRACKSIDE_TEAM_KEY_FILE = {settings.team_key_file!r} is for access keys in a team's "
            "database, and TRACKSIDE_DATABASE names none. Set both, or neither."
        )
    database = open_database(settings)
    try:
        from trackside.api.encryption import read_team_key
        from trackside.api.team_keys import TeamKeys
    except ImportError as error:
        raise _missing(error) from None
    key = read_team_key(Path(settings.team_key_file))
    return TeamKeys(database, key, settings.keys_grace_seconds)


def _check_unshared(settings: Settings) -> None:
    """Servers of an earlier version had keys of their own next to a shared database, and may
    continue so until one of them starts to share.
    """
    from trackside.api.team_keys import has_team_key

    database = open_database(settings)
    try:
        if has_team_key(database):
            raise ServerRefused(
                f"The servers of the database {database.address!r} share their access keys, and "
                "this one is not given the key that opens them. Copy the file of "
                "TRACKSIDE_TEAM_KEY_FILE from another server, and set it here."
            )
    finally:
        database.close()


def _missing(error: ImportError) -> MissingExtra:
    return MissingExtra("The list of access keys", error.name or "cryptography", "server")
