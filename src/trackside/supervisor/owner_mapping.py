"""Whether a folder of root can be mounted as owned by the user of a job.

Such a job can then read a bucket in place, which that user cannot access otherwise. Runs like a
sandbox's init, so it imports nothing slow.
"""

import os
import sys

from trackside import id_mapped_mount
from trackside.supervisor.namespaces import isolate


def main() -> None:
    """Try it, invisible to others: `python ... owner_mapping STAGE FOLDER UID GID` prints "yes"."""
    stage, folder, uid, gid = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    isolate("root", stage, "trackside-trial")
    source = os.open(folder, os.O_PATH)
    id_mapped_mount.show(source, folder, uid, gid)
    if os.stat(folder).st_uid == uid:
        os.write(1, b"yes")
