"""The access keys of this machine's server, for the commands that make or need them."""

from typing import TYPE_CHECKING

from trackside.errors import MissingExtra
from trackside.settings import Settings

if TYPE_CHECKING:
    from trackside.api.keys import AccessKey, AccessKeys

OWN_LABEL = "this machine"
"""Of the key that the server makes by itself, for clients beside it."""


def access_keys(settings: Settings) -> "AccessKeys":
    try:
        from trackside.api.keys import AccessKeys
    except ImportError as error:
        raise MissingExtra(
            "The list of access keys", error.name or "cryptography", "server"
        ) from None
    return AccessKeys(settings.layout.server.root)


def own_key(keys: "AccessKeys") -> "AccessKey":
    """For whoever sits at this machine; made when it is asked for the first time."""
    from trackside.api.keys import Rights

    for key in keys.all():
        is_own = key.label == OWN_LABEL and key.rights is Rights.ADMIN
        if is_own and key.expires is None:
            return key
    made, _ = keys.create(OWN_LABEL, Rights.ADMIN)
    return made
