import logging

__all__ = ["get_logger"]


def get_logger(name: str = "smdebug") -> logging.Logger:
    return logging.getLogger(name)
