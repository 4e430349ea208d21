"""Makes the site of `make docs` from pages that also read well on GitHub.

Pages at the root of the repository become pages of the site, and links between the two kinds are
rewritten. Fences that name a file (```python train.py) get its name as a caption.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
AT_ROOT = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "SECURITY.md": "SECURITY.md",
    "CODE_OF_CONDUCT.md": "CODE_OF_CONDUCT.md",
}
"""By path in the repository, the path in the site."""

_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")
_NAMED_FENCE = re.compile(r"^```(\w+) (\S+)$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, target in AT_ROOT.items():
        files.append(File.generated(config, target, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    target = page.file.src_uri
    source = next((name for name, uri in AT_ROOT.items() if uri == target), f"docs/{target}")

    def in_site(link: re.Match[str]) -> str:
        repository = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        uri = AT_ROOT.get(repository, repository.removeprefix("docs/"))
        return f"]({posixpath.relpath(uri, posixpath.dirname(target) or '.')}"

    return _NAMED_FENCE.sub(r"`\2`:\n\n```\1", _LINK.sub(in_site, markdown))
