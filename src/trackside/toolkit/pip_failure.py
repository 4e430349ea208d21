"""Why pip failed to install the requirements: the requirement, and pip's reason, once."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trackside.texts.process_failure import End, ProcessFailure, explain_end
from trackside.texts.truncation import plain, shortened

_ERROR = re.compile(r"\s*(?:ERROR|error): (?P<text>.+)")
_NOT_FOUND = re.compile(r"No matching distribution found for (?P<what>.+)")
_VERSIONS = re.compile(r"Could not find a version .*\(from versions: (?P<versions>.*)\)")
_NOT_BUILT = re.compile(
    r"(?:ERROR: Failed building (?:wheel|editable) for|Failed to build) (?P<what>[^'\s][^\s,]*)"
)
_BUILD_STEP = re.compile(r"\s*× (?P<what>.+?) did not run successfully\.?")
_COLLECTING = re.compile(r"\s*(?:Collecting|Processing|Building wheel for) (?P<what>\S+)")
_BUILD_ERRORS = ("subprocess-exited-with-error", "metadata-generation-failed", "failed-wheel-build")
_OUTPUT_BEGINS = re.compile(r"\s*╰─> \[\d+ lines? of output\]|.*\[\d+ lines? of output\]$")
_OUTPUT_ENDS = "[end of output]"
_UNREACHABLE = re.compile(r"WARNING: Retrying \(|Failed to establish a new connection")
_NO_REASON = ("ResolutionImpossible", "Ignored the following", "Could not find a version")
_COMPILER = re.compile(r".+: (?:fatal )?error: .+")
_NOISE = re.compile(
    r"\s*(?:Looking in |Requirement already satisfied|Downloading |Using cached |Collecting |"
    r"Processing |Installing build dependencies|Getting requirements to build|note: |hint: See |"
    r"error: subprocess-exited|\[end of output\]|│ exit code|╰─> See above|"
    r"ERROR: Could not find a version|ERROR: ResolutionImpossible)"
)
_MOST_WHY = 300


def explain_pip(
    code: int, output: str, *, seconds: float | None, code_folder: str
) -> ProcessFailure:
    """Why pip failed; `output` is the end of its output."""
    end = End(code=code, output=output, seconds=seconds, who="pip", code_folder=code_folder)
    lines = [line.rstrip() for line in plain(output).splitlines()]
    why = "" if code < 0 else _why(lines)
    if not why:
        return explain_end(end)
    evidence = [line for line in lines if line.strip() and not _NOISE.match(line)]
    return ProcessFailure(
        shortened(why, _MOST_WHY), tuple(line for line in evidence if not _repeats(line, why))
    )


def _why(lines: Sequence[str]) -> str:
    errors = [found["text"] for line in lines if (found := _ERROR.match(line))]
    if missing := _first(_NOT_FOUND, errors):
        return _not_found(missing["what"], lines)
    if any(error.startswith(_BUILD_ERRORS) for error in errors):
        return _not_built(lines)
    reasons = [error for error in errors if not error.startswith(_NO_REASON)]
    return f"pip: {reasons[0]}" if reasons else ""


def _not_found(what: str, lines: Sequence[str]) -> str:
    text = f"pip: No matching distribution found for {what}"
    if any(_UNREACHABLE.search(line) for line in lines):
        return f"{text}; the package index could not be reached"
    found = _first(_VERSIONS, lines)
    if found and found["versions"] != "none":
        versions = found["versions"].split(", ")
        known = ", ".join(versions[-5:])
        return f"{text}; there {'are' if len(versions) > 1 else 'is'} {known}"
    return text


def _not_built(lines: Sequence[str]) -> str:
    named = [found["what"] for line in lines if (found := _NOT_BUILT.search(line))]
    named += [found["what"] for line in reversed(lines) if (found := _COLLECTING.match(line))]
    step = _first(_BUILD_STEP, lines)
    text = f"pip could not build {named[0].strip('()')!r}" if named else "pip could not build"
    if last := _last_of_build(lines):
        return f"{text}: {last}"
    return f"{text}: {step['what']} failed" if step else text


def _last_of_build(lines: Sequence[str]) -> str:
    """The compiler's first error, or the last line that the build itself printed."""
    begin = next((i for i, line in enumerate(lines) if _OUTPUT_BEGINS.match(line)), None)
    if begin is None:
        return ""
    output = []
    for line in lines[begin + 1 :]:
        if _OUTPUT_ENDS in line:
            break
        if line.strip(" │|"):
            output.append(line.strip(" │|"))
    compiler = next((line for line in output if _COMPILER.fullmatch(line)), "")
    return compiler or (output[-1] if output else "")


def _first(pattern: re.Pattern[str], texts: Sequence[str]) -> re.Match[str] | None:
    return next((found for text in texts if (found := pattern.search(text))), None)


def _repeats(line: str, why: str) -> bool:
    found = _ERROR.match(line)
    return found is not None and found["text"] in why
