"""Locations as users write them, made independent of the folder they are written in."""

import os

_SCHEME = "://"


def location(given: str | os.PathLike[str]) -> str:
    """A URI stays as it is; a path becomes absolute, because the job runs in another folder."""
    text = os.fspath(given)
    if not text or _SCHEME in text:
        return text
    absolute = os.path.abspath(os.path.expanduser(text))
    # A trailing slash says "this folder", which a prefix in a bucket takes literally.
    return absolute + "/" if text.endswith("/") and absolute != "/" else absolute


def is_remote(given: str | os.PathLike[str]) -> bool:
    return _SCHEME in os.fspath(given)
