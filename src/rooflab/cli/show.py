"""The command `show`: a result that rooflab saved, drawn again."""

from __future__ import annotations

from typing import Any

import click

from rooflab.cli.delivery import deliver, held_by, output_options
from rooflab.cli.load import SUFFIXES
from rooflab.cli.options import GROUPS, SORTS, advice_option, examples, selection_options
from rooflab.errors import RooflabError


@click.command(
    short_help="Show a saved result again, or write it in other formats.",
    epilog=examples(
        "rooflab analyze model.py:build --machine h200-sxm -o report.json",
        "rooflab show report.json -o report.html -o report.md -o rows.parquet",
        "rooflab show report.json --kind matmul --sort flop --top 20",
    ),
)
@click.argument("file")
@selection_options
@click.option("--group-by", type=click.Choice(GROUPS), help="Subtotals of a report.  [default: module]")
@click.option("--sort", type=click.Choice(SORTS), help="Order of a report's lines; the largest first.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Lines of each table of a report.")
@click.option(
    "--graph", is_flag=True, help="Show a report's operations and tensors as a graph; -o takes .dot too."
)
@advice_option
@output_options("Profile")
def show(
    file: str,
    selection: Any,
    group_by: str | None,
    sort: str | None,
    top: int | None,
    graph: bool,
    advice: int | None,
    as_json: bool,
    paths: tuple[str, ...],
) -> int:
    """Show the result in FILE, which rooflab saved, or write it in other formats; nothing is measured again.

    FILE is JSON that any command wrote by -o, or a machine's TOML. What another tool wrote is read by `load`.
    """
    from rooflab import views
    from rooflab.story.files import saved
    from rooflab.views.common import files as files_of

    if graph:
        return _show_graph(file, paths, as_json)
    files_of.check_paths(paths, SUFFIXES, "result.html")
    result = saved(file)
    kind = type(result).__name__
    views.check_paths(paths, kind)
    asked = {"group_by": group_by, "sort": sort, "top": top, "selection": selection}
    given = {name: value for name, value in asked.items() if value}
    with held_by(file):
        if kind == "Report":
            return deliver(result, paths, as_json, advice=advice, **given)
        if kind == "Profile" and not given:
            return deliver(result, paths, as_json, advice=advice)
        if given:
            option = "selection" if "selection" in given else next(iter(given)).replace("_", "-")
            raise RooflabError(f"{file}: holds a {kind}, and {_options(option)} is of a Report's operations")
        return deliver(result, paths, as_json)


def _show_graph(file: str, paths: tuple[str, ...], as_json: bool) -> int:
    from rooflab.cli.delivery import show_graph
    from rooflab.story.files import saved
    from rooflab.types.report import Report
    from rooflab.views import graph
    from rooflab.views.common import files

    files.check_paths(paths, tuple(graph.WRITERS), "graph.svg")
    result = saved(file)
    if not isinstance(result, Report):
        raise RooflabError(f"{file}: holds a {type(result).__name__}, and --graph is of a Report's operations")
    with held_by(file):
        return show_graph(result, paths, as_json)


def _options(name: str) -> str:
    return "--kind, --module, --op, --phase or --bound" if name == "selection" else f"--{name}"
