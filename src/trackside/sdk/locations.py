"""Makes locations as users write them independent of the current folder."""

import os

_SCHEME = "://"


def location(given: str | os.PathLike[str]) -> str:
    """A URI is unchanged; a path becomes absolute, because the job runs in another folder."""
    text = os.fspath(given)
    if not text or _SCHEME in text:
        return text
    absolute = os.path.abspath(os.path.expanduser(text))
    # A trailing slash says "this folder", which a prefix in a bucket takes literally.
    return absolute + "/" if text.endswith("/") and absolute != "/" else absolute


def is_remote(given: str | os.PathLike[str]) -> bool:
    return _SCHEME in os.fspath(given)
