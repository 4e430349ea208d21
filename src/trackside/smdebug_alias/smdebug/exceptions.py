from trackside.capture import exceptions
from trackside.capture.exceptions import *  # noqa: F403
from trackside.capture.modes import ModeKeys as modes

__all__ = [*exceptions.__all__, "modes"]
