"""Changes a job after its submission, including its tags and its note.

`job.json` is the request and never changes; changes are notes in the journal, in order.
`records/job_updates.py` has what else can change.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from trackside.errors import InputError
from trackside.files import damaged_files
from trackside.files.json_record import DamagedRecord
from trackside.files.json_record import record as make
from trackside.jobs.records import Record, append_stored_note, publish_journal
from trackside.quick_dataclass import dataclass
from trackside.records.journal import LOCK_SECONDS, Journal
from trackside.records.layout import Home
from trackside.texts.truncation import shortened

MOST_NOTE_CHARACTERS = 4000
MOST_TAGS = 50
_MOST_OF_NAME, _MOST_OF_VALUE = 128, 256
"""Characters, as AWS counts them."""
_TAGS = "tags"
_NOTE = "note"


def tags_of(record: Record) -> dict[str, str]:
    tags = {tag.key: tag.value for tag in record.spec.tags}
    for note in record.history.notes:
        if note.get("what") != _TAGS:
            continue
        try:
            change = make(_Tags, note)
        except DamagedRecord as error:
            damaged_files.say_once(f"a note of job {record.spec.name}", f"{error}; it is left out")
            continue
        tags |= change.put
        for key in change.removed:
            tags.pop(key, None)
    return tags


@dataclass(frozen=True, slots=True)
class _Tags:
    put: dict[str, str]
    removed: list[str]


def note_of(record: Record) -> str:
    """The free text that somebody wrote about the job; empty without one."""
    texts = (note.get("text") for note in record.history.notes if note.get("what") == _NOTE)
    return next((text for text in reversed([*texts]) if isinstance(text, str)), "")


def note_text(record: Record, home: Home, text: str) -> None:
    """`InputError` for one that is too long."""
    if len(text) > MOST_NOTE_CHARACTERS:
        raise InputError(
            f"The note of job {record.spec.name!r} would have {len(text):,} characters; at most "
            f"{MOST_NOTE_CHARACTERS:,} are stored. Shorten it."
        )
    note(record, home, _NOTE, text=text)


def note_tags(record: Record, home: Home, put: Mapping[str, str], removed: Sequence[str]) -> None:
    """`InputError` for tags that a request for a job could not have either."""
    for name, value in put.items():
        if not 1 <= len(name) <= _MOST_OF_NAME or len(value) > _MOST_OF_VALUE:
            raise InputError(
                f"A tag has a name of 1 to {_MOST_OF_NAME} characters, and a value of at most "
                f"{_MOST_OF_VALUE}: {shortened(f'{name}={value}', _MOST_OF_NAME)!r} is none."
            )
    added = put.keys() - set(removed)
    if added and len(tags_of(record).keys() - set(removed) | added) > MOST_TAGS:
        raise InputError(
            f"The job {record.spec.name!r} would have more than {MOST_TAGS} tags. Remove some."
        )
    note(record, home, _TAGS, put=dict(put), removed=list(removed))


def note(record: Record, home: Home, what: str, **details: Any) -> None:
    """In the job's folder if it exists, and in storage once the job has ended."""
    if record.folder is None:
        append_stored_note(record.keys, home, what, **details)
        return
    # The record may predate the end: only the journal shows whether a copy was stored.
    journal = Journal(record.folder.journal, lock_seconds=LOCK_SECONDS)
    if journal.note(what, **details).state.is_final:
        publish_journal(record.folder, home)
    else:
        from trackside.records.host_processes import wake_supervisors  # not needed to read tags

        wake_supervisors(record.folder)
