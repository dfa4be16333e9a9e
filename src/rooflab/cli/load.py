"""The command `load`: what a profiler or rooflab wrote, read and shown."""

from __future__ import annotations

import os
from typing import Any

import click

from rooflab.cli.delivery import deliver, output_options
from rooflab.cli.options import advice_option, examples, over_options
from rooflab.errors import RooflabError

SUFFIXES = (".json", ".toml", ".csv", ".parquet", ".md", ".html", ".svg", ".png", ".pdf")


@click.command(
    short_help="Read a profile, or a result that rooflab saved: what limited the run.",
    epilog=examples(
        "rooflab load trace.json.gz",
        "rooflab load kernels.csv --machine h200-sxm -o profile.html",
        "rooflab load trace.json.gz --model model.py:build",
        "rooflab load stream.txt -o machine.toml",
        "rooflab load rank0.json.gz rank1.json.gz rank2.json.gz rank3.json.gz",
        "rooflab load traces/ --on tcp://head:8786",
    ),
)
@click.argument("files", metavar="FILE…", nargs=-1)
@click.option("--formats", "list_formats", is_flag=True, help="List the tools whose files are read.")
@click.option("--machine", metavar="NAME", help="That it ran on.  [default: as the file says]")
@click.option("--model", metavar="FILE.py:NAME", help="The program that ran, as `analyze` takes it.")
@click.option(
    "--limit",
    metavar="SIZE",
    help="How much a packed file may unpack to.  [default: 16 GB of a trace, 2 GiB of a table]",
)
@over_options("Read several files")
@advice_option
@output_options("Profile")
def load(
    files: tuple[str, ...],
    list_formats: bool,
    machine: str | None,
    model: str | None,
    limit: str | None,
    on: str | None,
    workers: int | None,
    advice: int | None,
    as_json: bool,
    paths: tuple[str, ...],
) -> int:
    """Read FILE, whatever wrote it: each operation counted, predicted and measured, and where the time went.

    FILE is a trace (PyTorch, JAX, Nsight Systems, rocprofv3, onnxruntime, …), a file of counters (Nsight Compute,
    rocprof, likwid, perf, Advisor, …), the output of a benchmark (STREAM, nvbandwidth, mixbench, …), which is a
    machine, or a result that rooflab saved; packed with gzip or xz too. It is recognised by what it holds, not by
    its name. Several files, or all below a folder, are shown side by side; one that cannot be read is said, and
    the exit code is 2.

    With --model each operation of the program is a row: its count, its prediction and what it took. A backward
    pass, an optimizer's step and a compiler are taken as the trace has them.
    """
    from rooflab import units, views
    from rooflab.executors import merges
    from rooflab.story import load as read
    from rooflab.views.common import files as files_of
    from rooflab.views.common.progress import progress

    if list_formats:
        from rooflab.observe.importers import sources

        click.echo("\n".join(sources()))
        return 0
    if not files:
        raise RooflabError(
            "load needs a FILE that a profiler, a benchmark or rooflab wrote (--formats lists whose)"
        )
    # What a file holds is known when it is read: until then a suffix of any result will do.
    files_of.check_paths(paths, SUFFIXES, "profile.json")
    limit_bytes = None if limit is None else units.parse(limit, "byte")
    with progress() as show:
        if model is None:
            found = read(*files, machine=machine, progress=show, limit_bytes=limit_bytes, on=on, workers=workers)
        else:
            from rooflab.cli import program_target

            program = program_target.load(model)
            with program_target.located(model):
                given = program.program, program.args, program.kwargs
                how: dict[str, Any] = {"limit_bytes": limit_bytes, "on": on, "workers": workers}
                found = read(*files, machine=machine, model=given, progress=show, **how)
    views.check_paths(paths, type(found).__name__)
    if not merges(on):
        return 0
    if advice == 0:
        found = _unadvised(found)
    shown: dict[str, Any] = {"advice": advice} if type(found).__name__ == "Profile" else {}
    code = deliver(found, paths, as_json, **shown)
    failed = getattr(found, "failed", ()) if len(files) > 1 or any(map(os.path.isdir, files)) else ()
    for sentence in failed:
        click.echo(f"rooflab: {sentence}", err=True)
    return 2 if failed else code


def _unadvised(result: Any) -> Any:
    """A profile, or profiles, without advice; any other result as it is."""
    import msgspec

    from rooflab.types.profile import Profile
    from rooflab.types.profiles import Profiles

    if isinstance(result, Profile):
        return msgspec.structs.replace(result, advice=None)
    if isinstance(result, Profiles):
        return msgspec.structs.replace(result, profiles=tuple(_unadvised(one) for one in result.profiles))
    return result
