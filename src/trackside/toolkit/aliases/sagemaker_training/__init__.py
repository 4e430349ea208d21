"""`import sagemaker_training` if the real package is not installed; otherwise defers to it."""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

_here = Path(__file__).parent.parent
_real = PathFinder.find_spec(
    "sagemaker_training", [path for path in sys.path if Path(path).resolve() != _here.resolve()]
)
if _real is not None and _real.loader is not None:
    _module = module_from_spec(_real)
    sys.modules["sagemaker_training"] = _module
    _real.loader.exec_module(_module)
