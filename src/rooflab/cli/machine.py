"""The command `machine`: the catalogue, or one machine of it or of a file."""

from __future__ import annotations

import click

from rooflab.cli.options import deliver, echo_json, examples, output_options, write_views


@click.command(
    short_help="List the catalogue, or show a machine.",
    epilog=examples(
        "rooflab machine", 'rooflab machine "H100 SXM" --ladder', "rooflab machine dgx-h100 --topology -o dgx.svg"
    ),
)
@click.argument("name", required=False)
@click.option("--ladder", is_flag=True, help="Show NAME's memory hierarchy from registers to the internet.")
@click.option("--topology", is_flag=True, help="Show who shares which cache, and where memory and links are.")
@click.option("--years", is_flag=True, help="Show how peaks, bandwidths and ridge points grew over the catalogue.")
@output_options("Machine")
def machine(
    name: str | None, ladder: bool, topology: bool, years: bool, as_json: bool, paths: tuple[str, ...]
) -> int:
    """List the catalogue, or show the machine called NAME (or in the file NAME)."""
    if ladder and topology:
        raise click.UsageError("--ladder and --topology are two pictures; give one of them")
    if years:
        if name is not None or ladder or topology:
            raise click.UsageError("--years is of the whole catalogue: no NAME, --ladder or --topology")
        return _show_years(paths, as_json)
    if name is None and (ladder or topology or paths):
        option = "--ladder" if ladder else "--topology" if topology else "-o"
        raise click.UsageError(f"{option} needs the NAME of a machine")
    if name is None:
        _list_machines(as_json)
        return 0
    if ladder:
        return _show_ladder(name, paths, as_json)
    if topology:
        return _show_topology(name, paths, as_json)
    from rooflab import views
    from rooflab.story import machine as find

    views.check_paths(paths, "Machine")
    return deliver(find(name), paths, as_json)


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
        echo_json([rung._asdict() for rung in rungs])
    else:
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
    else:
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
        echo_json(view.as_list(groups))
    else:
        view.show(groups)
    return code


def _list_machines(as_json: bool) -> None:
    from rooflab.machines import catalog

    machines = [(name, catalog.find(name)) for name in catalog.names()]
    if as_json:
        echo_json([each.to_dict() for _, each in machines])
    else:
        from rooflab.views.machine.terminal import show_catalogue

        show_catalogue(machines)
