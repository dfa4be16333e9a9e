"""For the site: links to files outside docs/ (examples, …) lead to the repository: a hook of mkdocs."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\]\((\.\./[^)#\s]+)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """`markdown` of `page` with such links as addresses of the repository."""
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def absolute(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        if target.startswith("docs/"):
            return match[0]
        return f"]({config.repo_url.rstrip('/')}/blob/main/{target}"

    return _LINK.sub(absolute, markdown).replace("](decisions/)", f"]({config.repo_url}/tree/main/docs/decisions)")
