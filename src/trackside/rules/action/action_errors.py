"""Errors of actions: those worth a retry, and final ones."""


class Passing(Exception):
    """A temporary error: a retry may succeed."""


class Refused(Exception):
    """A permanent error: a retry cannot succeed."""
