"""Which files of a folder a .dockerignore keeps out of a build. Pure.

Patterns are Go's, as `docker build` has them: `*` and `?` within a name, `**` across folders, `!`
takes back what an earlier line left out, and a folder's pattern is for all that is in it.
"""

import posixpath
import re
from collections.abc import Sequence


class DockerIgnore:
    def __init__(self, lines: Sequence[str]) -> None:
        """`ValueError` names a pattern that is none."""
        self._rules = [rule for line in lines if (rule := _rule(line)) is not None]

    @property
    def takes_back(self) -> bool:
        """Whether something below a folder that is left out may still be sent."""
        return any(is_kept for _, is_kept in self._rules)

    def leaves_out(self, path: str) -> bool:
        """`path` is relative to the folder; its parents count too. The last pattern decides."""
        parts = path.split("/")
        ways = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        result = False
        for pattern, is_kept in self._rules:
            if result == is_kept and any(pattern.fullmatch(way) for way in ways):
                result = not is_kept
        return result


def _rule(line: str) -> tuple[re.Pattern[str], bool] | None:
    text = line.strip()
    if not text or line.startswith("#"):
        return None
    is_kept = text.startswith("!")
    text = text[1:].strip() if is_kept else text
    cleaned = posixpath.normpath(text).lstrip("/") if text else ""
    if not cleaned:
        if is_kept:
            raise ValueError(f"{line.strip()!r} names nothing behind its '!'")
        return None
    try:
        return re.compile(_translated(cleaned), re.DOTALL), is_kept
    except re.error as error:
        raise ValueError(f"{line.strip()!r} is no pattern ({error})") from error


def _translated(pattern: str) -> str:
    text, at = "", 0
    while at < len(pattern):
        rest = pattern[at:]
        if rest.startswith("**"):
            at += 3 if rest.startswith("**/") else 2
            text += "(.*/)?" if rest.startswith("**/") else ".*"
        elif rest[0] == "\\" and len(rest) > 1:
            text, at = text + re.escape(rest[1]), at + 2
        elif rest[0] == "[" and "]" in rest[2:]:
            end = rest.index("]", 2)
            text, at = text + f"[{rest[1:end]}]", at + end + 1
        else:
            text += {"*": "[^/]*", "?": "[^/]"}.get(rest[0], re.escape(rest[0]))
            at += 1
    return text
