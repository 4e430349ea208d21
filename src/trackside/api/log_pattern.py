"""CloudWatch's filter patterns, as far as they are about words of a line. Pure."""

import re
from dataclasses import dataclass

from trackside.api.call import ServiceError

_TERM = re.compile(r'([-?]?)(?:"((?:[^"\\]|\\.)*)"|([^\s"]+))\s*')


@dataclass(frozen=True, slots=True)
class Pattern:
    """Empty matches everything."""

    all_of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Pattern":
        text = text.strip()
        if text.startswith(("{", "[", "%")):
            raise ServiceError(
                "InvalidParameterException",
                f"Invalid filter pattern {text!r}: only words are matched here, not JSON fields, "
                'columns or regular expressions. Write word, "a phrase", ?either ?or, -without.',
            )
        terms: dict[str, list[str]] = {"": [], "?": [], "-": []}
        position = 0
        while position < len(text):
            match = _TERM.match(text, position)
            if match is None:
                raise ServiceError(
                    "InvalidParameterException",
                    f"Invalid filter pattern {text!r}: a quote is open.",
                )
            sign, quoted, bare = match.groups()
            phrase = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            terms[sign].append(phrase)
            position = match.end()
        return cls(tuple(terms[""]), tuple(terms["?"]), tuple(terms["-"]))

    def fits(self, message: str) -> bool:
        return (
            all(term in message for term in self.all_of)
            and (not self.any_of or any(term in message for term in self.any_of))
            and not any(term in message for term in self.none_of)
        )
