"""Runs started by a script: `trackside.init`, `log`, `watch` and `finish`, for scripts and
notebooks that Trackside did not start.
"""
