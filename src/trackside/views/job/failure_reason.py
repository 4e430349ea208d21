"""Why a job failed, in short."""

import re

_OF_SCRIPT = (
    r"(?:AlgorithmError: )?(?P<host>algo-\d+: )?"
    r"(?:ExecuteUserScript|InstallRequirements|InstallModule)Error:\nExitCode (?P<code>-?\d+)\n"
    r'ErrorMessage "(?P<said>.*?)(?:"?\nExtraInfo "(?P<extra>[^\n]*)")?(?:"?\nCommand "[^\n]*)?'
)
"""The contract's four lines and more, of which users need two facts. The end may be cut off."""
_PLAIN = r"AlgorithmError: (?P<host>algo-\d+: )?(?P<said>.*), exit code: (?P<code>-?\d+)"
"""The form with a reason given by the script, or only by the supervisor."""


_PLACE = re.compile(
    r"\.?, at (?P<place>[^\s:,]+:\d+) in [\w<>.]+(?:: .*?)?"
    r"(?=, caused by |, while handling | \(exit code -?\d+\)$|$)"
)
"""As the toolkit writes where a script failed."""


def in_short(reason: str) -> str:
    """Why a job failed, for a user who has just seen its log: no traceback, no command line."""
    found = re.fullmatch(_OF_SCRIPT, reason, re.DOTALL)
    extra = "" if found is None else found["extra"]
    if found is None:
        found = re.fullmatch(_PLAIN, reason, re.DOTALL)
    if found is None:
        return reason
    said = _first_line(found["said"]) or extra or "the script said nothing"
    return f"{found['host'] or ''}{said} (exit code {found['code']})"


def without_source(reason: str) -> str:
    """`IndexError: out of bounds, at train.py:41`: the line without what stands there."""
    return _PLACE.sub(r", at \g<place>", reason, count=1)


def _first_line(said: str) -> str:
    """What went wrong comes before the evidence."""
    return next((line.strip() for line in said.splitlines() if line.strip()), "")
