"""Drafts: folders of jobs that are not submitted yet, under hidden names, until the claim."""

import os
import time
from contextlib import suppress

from trackside.records.layout import Home

DRAFT_SECONDS = 3600.0
"""Far longer than any submission takes from draft to claim."""


def sweep_drafts(home: Home) -> None:
    """Remove drafts of submitters that died."""
    with suppress(OSError):  # the owner of one may be claiming or removing it right now
        for name in os.listdir(home.jobs):
            path = home.jobs / name
            if name[0] == "." and time.time() - path.stat().st_mtime > DRAFT_SECONDS:
                import shutil  # there is rarely one

                shutil.rmtree(path)
