"""Masks secrets in the toolkit's output: values with secret names, passwords in addresses."""

from collections.abc import Mapping, Sequence

from trackside.texts.secret_names import MASK, hidden, hide_passwords, looks_secret


def mask_arguments(arguments: Sequence[str]) -> list[str]:
    """Name and value pairs, as to_arguments makes them, without the secret values."""
    shown: list[str] = []
    for name, value in zip(arguments[::2], arguments[1::2], strict=True):
        shown += [name, hidden(name, value)]
    return shown


def mask_mapping(values: Mapping[str, object]) -> dict[str, object]:
    return {
        name: MASK if looks_secret(name) else _mask_value(value) for name, value in values.items()
    }


def secret_values(arguments: Sequence[str]) -> list[str]:
    return [v for n, v in zip(arguments[::2], arguments[1::2], strict=True) if looks_secret(n)]


def _mask_value(value: object) -> object:
    if isinstance(value, Mapping):
        return mask_mapping(value)
    return hide_passwords(value) if isinstance(value, str) else value
