"""Options of the form NAME=VALUE that may be repeated."""

import click

FORM = "NAME=VALUE"


def as_mapping(
    ctx: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    """A callback for such an option; a name that is given twice is a mistake."""
    mapping: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not of the form {FORM}.", ctx, option)
        if name in mapping:
            raise click.BadParameter(f"{name!r} is given twice.", ctx, option)
        mapping[name] = value
    return mapping
