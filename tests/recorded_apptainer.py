"""A program named `apptainer` that is none: it records its arguments, refuses those that it does
not know, and runs the command on this machine. Nothing here says how the true one behaves.

As root, the folders of `--mount` are mounted, below an /opt of the command's own.
"""

import json
import sys
from pathlib import Path
from typing import Any

_PROGRAM = """#!{python}
import csv, json, os, subprocess, sys

FLAGS = {{"--containall", "--writable-tmpfs", "--nv"}}
VALUES = {{"--pwd", "--home", "--workdir", "--mount"}}
words = sys.argv[1:]
given = {{"verb": words.pop(0), "flags": [], "values": [], "words": []}}
if given["verb"] == "pull":
    force, target, uri = words
    assert force == "--force", force
    if "missing" in uri:
        sys.exit("FATAL:   While making image from oci registry: manifest unknown")
    open(target, "w").write(uri)
elif given["verb"] == "exec":
    while words[0].startswith("-"):
        word = words.pop(0)
        assert word in FLAGS | VALUES, word
        if word in VALUES:
            given["values"].append([word, words.pop(0)])
        else:
            given["flags"].append(word)
given["words"] = words
given["environment"] = dict(os.environ)
with open({record!r}, "a") as file:
    file.write(json.dumps(given) + "\\n")
if given["verb"] == "pull":
    sys.exit()
image, *command = words
environment = {{"PATH": {path!r}}}
for name, value in os.environ.items():
    if name.startswith("APPTAINERENV_"):
        environment[name.removeprefix("APPTAINERENV_")] = value
environment["HOME"] = dict(given["values"])["--home"].rpartition(":")[2]
script = ["set -e", "mount -t tmpfs none /opt"]
arguments = []
for option, value in given["values"]:
    if option != "--mount":
        continue
    [fields] = csv.reader([value])
    mount = dict(field.partition("=")[::2] for field in fields)
    source, target = mount["source"], mount["destination"]
    first, second = (f'"${{{{{{len(arguments) + number}}}}}}"' for number in (1, 2))
    if os.path.isdir(source):
        script.append(f"mkdir -p {{second}}")
    script.append(f"mount --bind {{first}} {{second}}")
    arguments += [source, target]
script += [f"shift {{len(arguments)}}", 'cd /opt/ml', 'exec "$@"']
inside = ["sh", "-c", "\\n".join(script), "sh", *arguments, *command]
os.execvpe("unshare", ["unshare", "--mount", *inside], environment)
"""


def install(folder: Path) -> Path:
    """The folder for PATH; what was called is in `record.jsonl` there."""
    folder.mkdir()
    program = folder / "apptainer"
    path = f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    record = str(folder / "record.jsonl")
    program.write_text(_PROGRAM.format(python=sys.executable, record=record, path=path))
    program.chmod(0o755)
    return folder


def calls(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "record.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]
