from trackside.capture.hook import Hook

__all__ = ["Hook"]
