"""Opens trials that may not have started."""

from pathlib import Path

from trackside.capture.reading.collections_file import is_collections_file
from trackside.capture.reading.trial_folder import TrialFolder
from trackside.capture.trial import Trial
from trackside.capture.trial_layout import COLLECTIONS, SEGMENTS
from trackside.storage.locate import Location


def open_trial(place: Location, home: Path) -> Trial | None:
    """None while nothing is saved there: opening a trial would wait.

    Files with other names do not count, for the trial would wait in spite of them.
    """
    folder = TrialFolder(place)
    if not any(is_collections_file(file.name) for file in folder.list(COLLECTIONS)) and not any(
        True for _ in folder.list(SEGMENTS)
    ):
        return None
    return Trial(place.uri, home=home, location=place)
