"""Names of smdebug that can be imported but not used: scripts import much that they never call."""

import logging
from functools import cache
from typing import Any, NoReturn

from trackside.capture.exceptions import SMDebugNotImplementedError

logger = logging.getLogger(__name__)

CHARTS = (
    "The report of a job (`trackside report JOB`) has charts of the machine and of steps, and "
    "`PandasFrame` has the figures."
)
PYTHON_PROFILES = "Functions of the script are not profiled here; py-spy and torch.profiler do it."
OTHER_FRAMEWORKS = (
    "Trackside watches PyTorch. What the script prints and writes for TensorBoard is kept."
)


def not_offered(name: str, instead: str) -> Any:
    """A class whose constructor raises; `instead` says what to use."""
    return type(name, (_NotOffered,), {"__doc__": instead, "__module__": "smdebug"})


def no_hook(framework: str) -> Any:
    """`get_hook` of an unsupported framework: it returns None, as without smdebug's configuration,
    and scripts that check it continue.
    """

    def get_hook(*args: Any, **kwargs: Any) -> None:
        _say_unwatched(framework)

    return get_hook


@cache
def _say_unwatched(framework: str) -> None:
    """Once: scripts may call it for every batch."""
    logger.warning("Not watched: %s. get_hook() gives None. %s", framework, OTHER_FRAMEWORKS)


class _NotOffered:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._refuse()

    @classmethod
    def create_from_json_file(cls, *args: Any, **kwargs: Any) -> NoReturn:
        cls._refuse()

    @classmethod
    def _refuse(cls) -> NoReturn:
        raise SMDebugNotImplementedError(
            f"{cls.__name__!r} of smdebug is not offered by Trackside. {cls.__doc__}"
        )
