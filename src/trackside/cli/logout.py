"""`trackside logout`: forgets a server and the key to it."""

import click

from trackside.profiles import DEFAULT_PROFILE, read_profiles, write_profiles
from trackside.settings import Settings


@click.command(short_help="Use the jobs of this machine again.")
def logout() -> None:
    """Forget a server and its key, and use the jobs of this machine again. Jobs there continue.

    \b
    Examples:
      trackside logout
      trackside --profile ci logout
    """
    settings = Settings.load()
    name = settings.profile or DEFAULT_PROFILE
    profiles = read_profiles(settings.home)
    server = profiles.pop(name, None)
    if server is None:
        print(f"There is no profile {name!r}.")
        return
    write_profiles(settings.home, profiles)
    print(f"{server.url} is forgotten.")
