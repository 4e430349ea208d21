"""Masks secrets in the toolkit's output: values with secret names, passwords in addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trackside.texts.secret_names import MASK, hidden, hide_passwords, looks_secret


def mask_arguments(arguments: Sequence[str]) -> list[str]:
    """Name and value pairs, as to_arguments makes them, without the secret values."""
    shown: list[str] = []
    for name, value in _pairs(arguments):
        shown += [name, hidden(name, value)]
    return shown


def mask_mapping(values: Mapping[str, object]) -> dict[str, object]:
    return {
        name: MASK if looks_secret(name) else _mask_value(value) for name, value in values.items()
    }


def secret_values(arguments: Sequence[str]) -> list[str]:
    return [value for name, value in _pairs(arguments) if looks_secret(name)]


def _pairs(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    return zip(arguments[::2], arguments[1::2])  # noqa: B905 for older Pythons in containers


def _mask_value(value: object) -> object:
    if isinstance(value, Mapping):
        return mask_mapping(value)
    return hide_passwords(value) if isinstance(value, str) else value
