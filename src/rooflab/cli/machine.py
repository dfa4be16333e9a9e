"""The command `machine`: the catalogue, or one machine of it or of a file."""

from __future__ import annotations

import click

from rooflab.cli.delivery import deliver, echo_json, output_options, quiet, write_views
from rooflab.cli.options import examples


@click.command(
    short_help="List the catalogue, or show machines.",
    epilog=examples(
        "rooflab machine",
        'rooflab machine "H100 SXM" --ladder',
        "rooflab machine h100-sxm h200-sxm b200",
        "rooflab machine dgx-h100 --topology -o dgx.svg",
    ),
)
@click.argument("names", metavar="[NAME]…", nargs=-1)
@click.option("--ladder", is_flag=True, help="Show NAME's memory hierarchy from registers to the internet.")
@click.option("--topology", is_flag=True, help="Show who shares which cache, and where memory and links are.")
@click.option("--years", is_flag=True, help="Show how peaks, bandwidths and ridge points grew over the catalogue.")
@output_options("Machine")
def machine(
    names: tuple[str, ...], ladder: bool, topology: bool, years: bool, as_json: bool, paths: tuple[str, ...]
) -> int:
    """List the catalogue, or show the machine called NAME (or in the file NAME); several beside each other."""
    if ladder and topology:
        raise click.UsageError("--ladder and --topology are two pictures; give one of them")
    option = "--ladder" if ladder else "--topology" if topology else "-o"
    if years:
        if names or ladder or topology:
            raise click.UsageError("--years is of the whole catalogue: no NAME, --ladder or --topology")
        return _show_years(paths, as_json)
    if not names:
        if ladder or topology or paths:
            raise click.UsageError(f"{option} needs the NAME of a machine")
        _list_machines(as_json)
        return 0
    name, *others = names
    if others:
        if ladder or topology:
            raise click.UsageError(f"{option} is of one machine, got {len(names)}")
        return _show_several(names, paths, as_json)
    if ladder:
        return _show_ladder(name, paths, as_json)
    if topology:
        return _show_topology(name, paths, as_json)
    from rooflab import views
    from rooflab.story import machine as find

    views.check_paths(paths, "Machine")
    return deliver(find(name), paths, as_json)


def _show_several(names: tuple[str, ...], paths: tuple[str, ...], as_json: bool) -> int:
    from rooflab import views
    from rooflab.story import compare
    from rooflab.story import machine as find

    views.check_paths(paths, "Comparison")
    return deliver(compare(*map(find, names), names=names), paths, as_json)


def _show_ladder(name: str, paths: tuple[str, ...], as_json: bool) -> int:
    from rooflab.machines.ladder import ladder
    from rooflab.story import machine as find
    from rooflab.views.common import files, sheet
    from rooflab.views.machine import ladder as view

    chosen = find(name)
    writers = view.writers(chosen)
    files.check_paths(paths, tuple(writers), "ladder.html")
    rungs = ladder(chosen)
    code = write_views(rungs, paths, writers)
    if as_json:
        echo_json(view.as_dict(chosen, rungs))
    elif not quiet():
        sheet.show(view.sheet_of(chosen, rungs))
    return code


def _show_topology(name: str, paths: tuple[str, ...], as_json: bool) -> int:
    from rooflab.story import machine as find
    from rooflab.views.common import files
    from rooflab.views.machine import topology as view

    files.check_paths(paths, tuple(view.WRITERS), "topology.svg")
    chosen = find(name)
    code = write_views(chosen, paths, view.WRITERS)
    if as_json:
        echo_json(view.as_dict(chosen))
    elif not quiet():
        view.show(chosen)
    return code


def _show_years(paths: tuple[str, ...], as_json: bool) -> int:
    from rooflab.machines.years import growth_of_catalogue
    from rooflab.views.common import files
    from rooflab.views.machine import years as view

    writers = view.writers()
    files.check_paths(paths, tuple(writers), "years.svg")
    groups = growth_of_catalogue()
    code = write_views(groups, paths, writers)
    if as_json:
        echo_json(view.as_dict(groups))
    elif not quiet():
        view.show(groups)
    return code


def _list_machines(as_json: bool) -> None:
    from rooflab.machines import catalog

    machines = [(name, catalog.find(name)) for name in catalog.names()]
    if as_json:
        echo_json({"type": "Catalogue", "schema": 1, "machines": [each.to_dict() for _, each in machines]})
    else:
        from rooflab.views.machine.terminal import show_catalogue

        show_catalogue(machines)
