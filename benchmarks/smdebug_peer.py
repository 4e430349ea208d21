"""The peer smdebug 1.0.34 in an environment of its own, made by pip on first use.

The protobuf it pins, 3.20, has a compiled runtime for Python 3.7 to 3.10 only; on later ones it
falls back to pure Python and is several times slower. To show it at its best, its generated
modules are written anew, from the descriptors in them, for protobuf 4, whose runtime is compiled
everywhere. The newest torch its forward and backward hooks work with is the one measured: 2.13.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

_PACKAGES = (
    "smdebug==1.0.34",
    "numpy<2",
    "protobuf==3.20.3",
    "setuptools<81",
    "torch==2.13.0",
    *("boto3", "packaging", "pandas<2.2", "psutil", "pyinstrument", "requests"),
)
"""It imports the last ones though it does not always require them."""
_COMPILED_PROTOBUF = "protobuf==4.25.8"

_RENEW = """
import importlib, pathlib
import smdebug.core.tfevent.proto as package
folder = pathlib.Path(package.__file__).parent
texts = {}
for path in sorted(folder.glob("*_pb2.py")):
    module = importlib.import_module(f"{package.__name__}.{path.stem}")
    imported = [file.name for file in module.DESCRIPTOR.dependencies]
    described = module.DESCRIPTOR.serialized_pb
    texts[path] = "\\n".join([
        *(f"import {name.removesuffix('.proto').replace('/', '.')}_pb2" for name in imported),
        "from google.protobuf import descriptor_pool",
        "from google.protobuf.internal import builder",
        f"DESCRIPTOR = descriptor_pool.Default().AddSerializedFile({described!r})",
        "builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())",
        f"builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, {module.__name__!r}, globals())",
        "",
    ])
for path, text in texts.items():
    path.write_text(text)
"""


def smdebug_python(
    folder: Path = Path(__file__).parent / ".peers" / "smdebug-1.0.34",
) -> Path | None:
    """Its interpreter; None, and said so, where the environment cannot be made."""
    python = folder / "bin" / "python"
    if python.exists():
        return python
    venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "-qq"]
    try:
        subprocess.run([*pip, *_PACKAGES], check=True)
        subprocess.run([str(python), "-c", _RENEW], check=True, env=smdebug_environment())
        subprocess.run([*pip, "--no-deps", _COMPILED_PROTOBUF], check=True)
    except subprocess.CalledProcessError as error:
        shutil.rmtree(folder)
        print(f"smdebug cannot be installed and is left out: {error}.", file=sys.stderr)
        return None
    return python


def smdebug_environment() -> dict[str, str]:
    return {"SMDEBUG_LOG_LEVEL": "off", "PATH": os.environ["PATH"]}
