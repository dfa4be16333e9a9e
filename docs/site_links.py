"""For the site: links to files outside docs/ (examples, …) lead to the repository: a hook of mkdocs."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\]\((\.\./[^)#\s]+)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """`markdown` of `page` with such links as addresses of the repository."""
    repository = config.extra["repository"]
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def absolute(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        return match[0] if target.startswith("docs/") else f"]({repository}/blob/main/{target}"

    return _LINK.sub(absolute, markdown).replace("](decisions/)", f"]({repository}/tree/main/docs/decisions)")
