"""The command line: argument parsing only. Everything heavy is imported inside its command."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from rooflab import __version__
from rooflab.cli import lab, loop, model, simulate, transfer, work
from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.types.machine import Machine

BAD_INPUT, INTERRUPTED = 2, 130
_OUTPUT = "Write the result to FILE (.json, .toml, .html, .svg, .png or .pdf); may be given again."
# A blank line before, and this mark above, an example keeps click from refilling it.
_AS_IS = "\b\n"


def main() -> NoReturn:
    """Run the command that `sys.argv` holds, and exit: 0, 2 for bad input, 130 for Ctrl-C."""
    try:
        code = cli.main(prog_name="rooflab", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        # click's word for Ctrl-C
        code = _interrupted()
    except KeyboardInterrupt:
        code = _interrupted()
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "rooflab"
        click.echo(f"rooflab: {error.format_message()} (see {command} --help)", err=True)
        code = error.exit_code
    except RooflabError as error:
        click.echo(f"rooflab: {error}", err=True)
        code = BAD_INPUT
    except BrokenPipeError:
        # The reader of the pipe has left (`| head`): not an error. Python would flush stdout once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 0
    sys.exit(code)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"{_AS_IS}Example:\n  rooflab measure -o machine.html",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """What limits this code on this machine, how far is it from the limit, and what would help?"""


@cli.command(
    short_help="Measure the roofs of this machine.",
    epilog=f"{_AS_IS}Example:\n  rooflab measure -o machine.html -o machine.toml",
)
@click.option("-o", "--output", "paths", multiple=True, metavar="FILE", help=_OUTPUT)
@click.option("--quick", is_flag=True, help="Fewer sizes and rounds, no disk: about 6 s instead of 20.")
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads to use instead of all granted.")
@click.option("--sustained", is_flag=True, help="Also compare the clock of a long run with that of a short one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout and nothing else.")
def measure(paths: tuple[str, ...], quick: bool, threads: int | None, sustained: bool, as_json: bool) -> int:
    """Measure the roofs of this machine: bandwidth, latency and peaks of what is granted to you."""
    from rooflab.views.export import check_writable

    check_writable(paths)
    _refuse_too_little_memory()
    from rooflab.story import measure as run
    from rooflab.views.progress import progress

    with progress() as show:
        machine = run(quick=quick, threads=threads, sustained=sustained, progress=show)
    _report(machine, paths, as_json)
    if machine.incomplete is None:
        return 0
    click.echo(f"rooflab: incomplete: {machine.incomplete}; what was measured so far is shown", err=True)
    return INTERRUPTED


@cli.command(
    short_help="List the catalogue, or show a machine.",
    epilog=f'{_AS_IS}Example:\n  rooflab machines "H100 SXM" --ladder',
)
@click.argument("name", required=False)
@click.option("--ladder", is_flag=True, help="Show NAME's memory hierarchy from registers to the internet.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout and nothing else.")
@click.option("-o", "--output", "paths", multiple=True, metavar="FILE", help=_OUTPUT)
def machines(name: str | None, ladder: bool, as_json: bool, paths: tuple[str, ...]) -> int:
    """List the catalogue, or show the machine called NAME (or in the file NAME)."""
    from rooflab.views.export import check_writable

    check_writable(paths)
    if name is None:
        if ladder or paths:
            raise click.UsageError(f"{'--ladder' if ladder else '-o'} needs the NAME of a machine")
        _list_machines(as_json)
        return 0
    from rooflab.story import machine as find

    machine = find(name)
    if ladder:
        _show_ladder(machine, as_json)
        _save(machine, paths)
    else:
        _report(machine, paths, as_json)
    return 0


def _refuse_too_little_memory() -> None:
    """Raise before anything heavy is imported where too little memory is granted to measure in."""
    from rooflab.machines.detect import detect, require_memory

    require_memory(detect(gpus=False))


def _report(machine: Machine, paths: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        from rooflab.views.export import json_text

        click.echo(json_text(machine).encode(), nl=False)
    else:
        from rooflab.views import terminal

        terminal.show(machine)
    _save(machine, paths)


def _save(machine: Machine, paths: tuple[str, ...]) -> None:
    if not paths:
        return
    from rooflab.views.export import save

    if machine.incomplete is None:
        save(machine, *paths)
        click.echo(f"rooflab: wrote {', '.join(paths)}", err=True)
        return
    for path in paths:
        # Half a measurement may have no roofline to draw: the other files are written all the same.
        try:
            save(machine, path)
            click.echo(f"rooflab: wrote {path}", err=True)
        except RooflabError as error:
            click.echo(f"rooflab: {path} not written: {error}", err=True)


def _list_machines(as_json: bool) -> None:
    from rooflab.machines import catalog

    found = [(name, catalog.find(name)) for name in catalog.names()]
    if as_json:
        from rooflab.views.export import json_text

        click.echo(json_text([machine for _, machine in found]).encode(), nl=False)
    else:
        from rooflab.views import terminal

        terminal.show_catalogue(found)


def _show_ladder(machine: Machine, as_json: bool) -> None:
    from rooflab.machines.ladder import ladder

    rungs = ladder(machine)
    if as_json:
        from rooflab.views.export import json_text

        click.echo(json_text([rung._asdict() for rung in rungs]).encode(), nl=False)
    else:
        from rooflab.views import terminal

        terminal.show_ladder(machine, rungs)


def _interrupted() -> int:
    click.echo("rooflab: interrupted, nothing was saved", err=True)
    return INTERRUPTED


cli.add_command(work.analyze)
cli.add_command(work.op)
cli.add_command(lab.lab)
cli.add_command(loop.loop)
cli.add_command(transfer.transfer)
cli.add_command(model.calibrate)
cli.add_command(simulate.simulate)
