"""Runs the code of a Markdown page as a reader would: downwards, one folder, one interpreter.

```python NAME   is written to the file NAME         ```python   is run, names carry over
```sh            is run by bash, first error ends    other fences are only shown
"""

import re
import subprocess
import sys
from pathlib import Path

FENCE = re.compile(r"^```(\w+)[ ]?(\S*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def main(page: Path) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    text = page.read_text()
    for match in FENCE.finditer(text):
        language, file_name, code = match.groups()
        line = text[: match.start()].count("\n") + 2
        if file_name:
            Path(file_name).parent.mkdir(parents=True, exist_ok=True)
            Path(file_name).write_text(code)
        elif language == "python":
            exec(compile("\n" * (line - 1) + code, str(page), "exec"), names)
        elif language == "sh":
            where = f"{page.name}:{line}"
            subprocess.run(["bash", "-euo", "pipefail", "-c", code, where], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
