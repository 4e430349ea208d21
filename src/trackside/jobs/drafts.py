"""Folders of jobs that are not there yet: drafts, under hidden names, until the claim."""

import os
import time
from contextlib import suppress

from trackside.records.layout import Home

DRAFT_SECONDS = 3600.0
"""Nobody takes this long from a draft to the claim."""


def sweep_drafts(home: Home) -> None:
    """Remove what submitters that died left behind under hidden names."""
    with suppress(OSError):  # the owner of one may be claiming or removing it right now
        for name in os.listdir(home.jobs):
            path = home.jobs / name
            if name[0] == "." and time.time() - path.stat().st_mtime > DRAFT_SECONDS:
                import shutil  # there is hardly ever one

                shutil.rmtree(path)
