"""The drill: faults put into a running installation, and what came of each, counted.

A module with `CASES` says what it breaks and what must hold; `ground` is what all of them stand on.
"""
