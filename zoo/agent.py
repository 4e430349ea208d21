"""Asks `trackside mcp` what is wrong with a job, as a coding agent would, and counts the calls and
bytes until the cause is named."""

import asyncio
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MOST_CALLS = 3
MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Asked:
    num_calls: int
    """Until one of the causes was named, or none is left."""
    size_bytes: int
    """Of all answers up to then."""
    is_named: bool
    first: str
    """The cause that was named first; empty if none was."""
    answers: tuple[str, ...]

    @property
    def is_enough(self) -> bool:
        return self.is_named and self.num_calls <= MOST_CALLS and self.size_bytes <= MOST_BYTES


def ask(home: Path, job: str, causes: Sequence[str]) -> Asked:
    """Stops as soon as an answer names one of the causes."""
    return asyncio.run(_ask(home, job, causes))


async def _ask(home: Path, job: str, causes: Sequence[str]) -> Asked:
    from mcp import ClientSession, StdioServerParameters, stdio_client

    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "trackside.cli", "mcp", "--read-only"],
        env={**os.environ, "TRACKSIDE_HOME": str(home)},
    )
    answers: list[str] = []
    async with stdio_client(command) as streams, ClientSession(*streams) as session:
        await session.initialize()
        for tool, arguments in (
            ("what_is_wrong", {"job": job}),
            ("evidence", {"job": job, "diagnosis": 1}),
            ("logs_around", {"job": job}),
        ):
            result = await session.call_tool(tool, arguments)
            answers.append("\n".join(getattr(part, "text", "") for part in result.content))
            if _names(answers[-1], causes):
                break
    first = re.search(r"^1\. (\w+)", answers[0], re.MULTILINE)
    return Asked(
        len(answers),
        sum(len(answer.encode()) for answer in answers),
        _names(answers[-1], causes),
        first[1] if first else "",
        tuple(answers),
    )


def _names(answer: str, causes: Sequence[str]) -> bool:
    return any(re.search(rf"\b{cause}\b", answer) for cause in causes)
