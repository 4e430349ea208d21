"""Opens trials that may not have begun."""

from pathlib import Path

from trackside.capture.reading.trial_folder import TrialFolder
from trackside.capture.trial import Trial
from trackside.capture.trial_layout import COLLECTIONS, SEGMENTS
from trackside.storage.locate import Location


def open_trial(place: Location, home: Path) -> Trial | None:
    """None as long as nothing is saved there: opening a trial waits until something is."""
    folder = TrialFolder(place)
    if not any(True for prefix in (COLLECTIONS, SEGMENTS) for _ in folder.list(prefix)):
        return None
    return Trial(place.uri, home=home, location=place)
