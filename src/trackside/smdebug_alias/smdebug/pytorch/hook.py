"""Also exports what scripts get from the original by `import *`."""

import os
import time

import torch

from trackside.capture.current_hook import set_hook
from trackside.capture.exceptions import SMDebugError
from trackside.capture.hook import Hook
from trackside.capture.selection.collection import CollectionKeys, CollectionManager

__all__ = [
    "CollectionKeys",
    "CollectionManager",
    "Hook",
    "SMDebugError",
    "os",
    "set_hook",
    "time",
    "torch",
]
