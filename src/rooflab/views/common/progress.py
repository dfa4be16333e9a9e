"""A progress line on stderr while something is measured; silent where stderr is not a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

Progress = Callable[[str, float, float], None]


@contextmanager
def progress(stream: TextIO | None = None, after_s: float = 0.0) -> Iterator[Progress]:
    """A function `progress(stage, done, total)` that draws one line on `stream` (stderr) until the end.

    A total of zero is one that is not known: the line then shows the stage and the time alone.
    The line disappears at the end, and nothing at all is written where `stream` is no terminal, or where the end
    comes within `after_s` seconds.
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
    bars = Bars(*columns, console=Console(file=stream), transient=True, refresh_per_second=4)
    task = bars.add_task("starting", total=None)

    def show(stage: str, done: float, total: float) -> None:
        bars.update(task, description=stage, completed=done, total=total or None)

    waiting = threading.Timer(after_s, bars.start)
    waiting.daemon = True
    if after_s:
        waiting.start()
    else:
        bars.start()
    try:
        yield show
    finally:
        waiting.cancel()
        if waiting.is_alive():
            waiting.join()  # it may have been starting just now
        bars.stop()
