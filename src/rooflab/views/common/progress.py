"""A progress line on stderr while something is measured; silent where stderr is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

Progress = Callable[[str, float, float], None]


@contextmanager
def progress(stream: TextIO | None = None) -> Iterator[Progress]:
    """A function `progress(stage, done, total)` that draws one line on `stream` (stderr) until the end.

    A total of zero is one that is not known: the line then shows the stage and the time alone.
    The line disappears at the end, and nothing at all is written where `stream` is no terminal.
    """
    stream = sys.stderr if stream is None else stream
    if stream is None or not stream.isatty():
        yield lambda stage, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    # Redrawing wakes a thread: four times a second does not show in what is measured.
    with Bars(*columns, console=Console(file=stream), transient=True, refresh_per_second=4) as bars:
        task = bars.add_task("starting", total=None)

        def show(stage: str, done: float, total: float) -> None:
            bars.update(task, description=stage, completed=done, total=total or None)

        yield show
