"""Blocks read in bulk: a damaged or missing one loses only its own figures, and is logged once.

Reading one value of one step raises instead: `tensor.py`.
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
    """None if it cannot be read."""
    return attempt(block, block.read)


def attempt(block: Block, action: Callable[[], T]) -> T | None:
    """The action's result; None if the block's file cannot be read."""
    try:
        return action()
    except UNREADABLE as error:
        damaged_files.say_once(block.position[0], f"{error}; what it holds is left out")
        return None
