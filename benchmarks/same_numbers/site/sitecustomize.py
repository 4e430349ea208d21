"""On PYTHONPATH of both runs: leaves what a script has printed and read from tensors, what it has
trained, and the state of each random generator, when its process ends.

`SAME_NUMBERS_MODE` changes the training in the same way in both runs: `compile` and `amp` run its
models compiled or in bfloat16, `eval` evaluates them on their last inputs during training.
"""

import os
import sys

_FOLDER = os.environ.get("SAME_NUMBERS_FOLDER")
_IS_SCRIPT = sys.orig_argv[-1] == "train.py" or "--multiprocessing-fork" in sys.orig_argv

if _FOLDER and _IS_SCRIPT:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import traces

    sys.path.pop(0)
    traces.install(_FOLDER, os.environ.get("SAME_NUMBERS_MODE", "train"))
