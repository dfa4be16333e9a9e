"""A function made of the syntax tree of a loop, on the lines of its source: changed loops are lowered too."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from rooflab.loops.read.source import Source
from rooflab.loops.twin import generated_files


def function(source: Source) -> Callable[..., Any]:
    """The function that `source` describes, with the modules and constants that it names and nothing else."""
    # numba keeps an environment by the name of a module that can be imported
    scope: dict[str, Any] = {"__name__": __name__}
    exec(generated_files.preamble(source), scope)
    body = ast.fix_missing_locations(ast.Module([source.tree], []))
    exec(compile(body, source.path, "exec"), scope)
    return scope[source.tree.name]
