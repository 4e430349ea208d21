"""Blocks read in bulk: one that is damaged or gone costs its own figures, and is named once.

Who asks for one value of one step is told by an exception instead: `tensor.py`.
"""

from collections.abc import Callable
from typing import TypeVar

from trackside.capture.dtypes import Array
from trackside.capture.reading.tensor_index import Block
from trackside.errors import ObjectNotFound
from trackside.files import damaged_files
from trackside.files.json_record import DamagedRecord

T = TypeVar("T")

UNREADABLE = (DamagedRecord, FileNotFoundError, ObjectNotFound)
"""What reading a block may raise."""


def read(block: Block) -> Array | None:
    """None when it cannot be."""
    return attempt(block, block.read)


def attempt(block: Block, action: Callable[[], T]) -> T | None:
    """What the block answers; None when its file cannot be read."""
    try:
        return action()
    except UNREADABLE as error:
        damaged_files.say_once(block.position[0], f"{error}; what it holds is left out")
        return None
