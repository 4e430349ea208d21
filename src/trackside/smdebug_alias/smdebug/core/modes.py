from trackside.capture.modes import ModeKeys

__all__ = ["ModeKeys"]
