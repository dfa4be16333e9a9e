"""The commands about programs: `analyze` one, count one `op` by hand."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from rooflab.cli.delivery import deliver, echo_json, needs_machine, output_options, quiet, show_graph, stage
from rooflab.cli.options import (
    GROUPS,
    SORTS,
    Wanted,
    advice_option,
    examples,
    own_time_option,
    pairs,
    prediction_options,
    selection_options,
    whole_numbers,
)
from rooflab.errors import RooflabError
from rooflab.units import number_or_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rooflab.types.report import Report


@click.command(
    short_help="List every operation of a model with its FLOP and bytes.",
    epilog=examples("rooflab analyze examples/two_layers.py:model --batch 64 --machine h200-sxm"),
)
@click.argument("target")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Short for --dim batch=N.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=N", help="A keyword of NAME, or a symbolic size.")
@click.option("--backward", is_flag=True, help="Count the backward pass too.")
@click.option("--optimizer", metavar="NAME", help="Count the backward pass and a step of it too: sgd, adamw, …")
@click.option(
    "--device", help="Device whose kernels are counted: cuda, cpu.  [default: the machine's kind, else cuda]"
)
@click.option("--unfused", is_flag=True, help="Count attention with its scores written to memory and read again.")
@click.option("--formulas", multiple=True, metavar="FILE.py", help="A file that registers formulas of your own.")
@prediction_options
@selection_options
@click.option("--group-by", type=click.Choice(GROUPS), default="module", show_default=True, help="Subtotals.")
@click.option("--sort", type=click.Choice(SORTS), help="Order of the lines; by default the largest first.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Lines of each table.")
@own_time_option
@click.option(
    "--measure", is_flag=True, help="Time every operation and the program here, where the machine is this one."
)
@advice_option
@click.option("--graph", is_flag=True, help="Show operations and tensors as a graph; -o takes .dot too.")
@click.option("--debug", is_flag=True, help="Show the whole traceback of an error in the target.")
@output_options("Report")
def analyze(
    target: str,
    batch: int | None,
    dims: tuple[str, ...],
    backward: bool,
    optimizer: str | None,
    device: str | None,
    unfused: bool,
    formulas: tuple[str, ...],
    wanted: Wanted,
    selection: Any,
    group_by: Any,
    sort: str | None,
    top: int | None,
    time: str | None,
    measure: bool,
    advice: int | None,
    graph: bool,
    debug: bool,
    as_json: bool,
    paths: tuple[str, ...],
) -> int:
    """List every operation of TARGET with its FLOP, bytes and intensity; no weights, no GPU.

    TARGET is FILE.py:NAME, package.module:NAME or model.onnx; or a language model's config.json, GGUF
    file or safetensors index, or the name of one (llama-3.1-8b), with --dim tokens=N new tokens of
    each of --batch sequences after --dim context=N. NAME is a function that needs no
    argument. It is called once: where it returns (module, inputs) or (module, args, kwargs), that
    module is analyzed on those inputs; else the function itself is, as it runs.

    \b
      def model(batch=8):                    # rooflab analyze FILE.py:model --batch 64
          with torch.device("meta"):         # no memory is needed for "meta" tensors
              return torch.nn.Linear(4096, 1024), torch.empty(batch, 4096)
    """
    from rooflab import views
    from rooflab.work.front_end import check_device

    if graph:
        _check_graph(wanted, paths)
    else:
        views.check_paths(paths, wanted.kind)
        needs_machine(paths, wanted.machines)
    measured_s = None if time is None else _measured_s(time, wanted)
    clocked = "--measure" if measure else None if time is None else "--time"
    if graph and clocked is not None:
        raise click.UsageError(f"--graph draws a program as predicted: leave out {clocked}")
    if measure:
        _check_measure(wanted, time, device)
    sizes = whole_numbers(dims, "--dim")
    if batch is not None:
        sizes["batch"] = batch
    if device is not None:
        check_device(device)
    with _whole_traceback(debug):
        _register(formulas)
    kinds = {machine.kind for machine in wanted.machines.values()}
    how = {"backward": backward, "optimizer": optimizer, "attention": "unfused" if unfused else "fused"}
    how["device"] = device or ("cpu" if kinds == {"cpu"} else "cuda")
    how["recorded"] = wanted.setting.get("mode") == "graph"

    def analyzed(sizes: dict[str, int], **changes: Any) -> Report:
        with _whole_traceback(debug):
            return _analyzed(target, sizes, {**how, **changes})

    if measure:
        report = _measured(target, sizes, how, wanted, debug)
    else:
        with stage("reading the program"):
            report = analyzed(sizes)
    if graph:
        return _show_graph(report, wanted, paths, as_json)
    more = {"group_by": group_by, "sort": sort, "top": top, "selection": selection, "measured_s": measured_s}
    batch_now = sizes.get("batch")
    if batch_now is None and advice != 0 and wanted.kind != "Variants" and wanted.machines:
        from rooflab.cli import program_target

        batch_now = program_target.default_batch(target)

    def at_batch(size: int) -> Report:
        return analyzed({**sizes, "batch": size})

    def as_recorded() -> Report:
        return analyzed(sizes, recorded=True)

    more |= {"batch": batch_now, "advice": advice, "as_recorded": as_recorded}
    return _deliver(report, wanted, at_batch, paths, as_json, **more)


def _check_measure(wanted: Wanted, time: str | None, device: str | None) -> None:
    """Return where programs can be timed here and held against the one machine that is `wanted`."""
    from rooflab.story import measured

    if time is not None:
        raise click.UsageError("--measure times the program here: leave out --time")
    if wanted.kind == "Variants":
        raise RooflabError("--measure needs the one --machine that this is, without --what-if")
    measured.check(next(iter(wanted.machines.values()), None), device)
    mode = wanted.setting.get("mode")
    if mode not in (None, "eager"):
        raise RooflabError(f"--measure calls each operation as it is: leave out --mode {mode}")


def _measured(target: str, sizes: dict[str, int], how: dict[str, Any], wanted: Wanted, debug: bool) -> Report:
    """The program predicted on the machine that is `wanted`, and timed here."""
    from rooflab.views.common.progress import progress

    (machine,) = wanted.machines.values()
    with _whole_traceback(debug), nullcontext() if quiet() else progress() as told:
        more = {"machine": machine, "advice": False, "measure": True, "progress": told, **wanted.setting}
        return _analyzed(target, sizes, {**how, **more})


def _check_graph(wanted: Wanted, paths: tuple[str, ...]) -> None:
    """Return where a graph is of one program, and can be written to `paths`."""
    from rooflab.views import graph
    from rooflab.views.common import files

    if wanted.kind == "Variants":
        raise click.UsageError("--graph draws a program on one machine: give one --machine, and no --what-if")
    files.check_paths(paths, tuple(graph.WRITERS), "graph.svg")


def _show_graph(report: Report, wanted: Wanted, paths: tuple[str, ...], as_json: bool) -> int:
    for machine in wanted.machines.values():
        report = report.on(machine, **wanted.setting)
    return show_graph(report, paths, as_json)


def _register(files: tuple[str, ...]) -> None:
    """Run `files`, whose `rooflab.formula` decorators say how operations of their own are counted."""
    from rooflab.cli import program_target

    for file in files:
        program_target.imported(file)


def _analyzed(target: str, sizes: dict[str, int], how: dict[str, Any]) -> Report:
    from rooflab.cli import program_target
    from rooflab.story import analyze as run

    program = program_target.load(target, sizes)
    with program_target.located(target):
        return run(
            program.program,
            *program.args,
            kwargs=program.kwargs,
            name=program.name,
            dims=program.dims or None,
            **how,
        )


def _deliver(
    report: Report,
    wanted: Wanted,
    at_batch: Callable[[int], Report] | None,
    paths: tuple[str, ...],
    as_json: bool,
    *,
    advice: int | None,
    batch: int | None = None,
    as_recorded: Callable[[], Report] | None = None,
    measured_s: float | None = None,
    **how: Any,
) -> int:
    """Hand over `report`, predicted as it is `wanted`, with so much advice, beside what was measured."""
    from rooflab.story import advise, variants

    if wanted.kind == "Variants":
        names, machines = tuple(wanted.machines), tuple(wanted.machines.values())
        with stage("predicting"):
            result = variants(report, machines, wanted.what_ifs, names=names, at_batch=at_batch, **wanted.setting)
        return deliver(result, paths, as_json)
    for machine in wanted.machines.values():
        if report.measurement is None:  # else predicted, then timed
            with stage("predicting"):
                report = report.on(machine, **wanted.setting)
        if advice != 0:
            with stage("looking for what would help"):
                again = {"at_batch": at_batch if batch is not None else None, "as_recorded": as_recorded}
                report = advise(report, batch=batch, **again)
    if measured_s is not None:
        with stage("looking for what would explain the time"):
            report = report.with_times(measured_s)
    return deliver(report, paths, as_json, advice=advice, **how)


@click.command(
    short_help="Count one operation from its shapes.",
    epilog=examples("rooflab op matmul 4096x4096 4096x4096 --dtype bf16 --machine h200-sxm"),
)
@click.argument("kind", required=False)
@click.argument("shapes", nargs=-1)
@click.option("--dtype", default="fp32", metavar="NAME", show_default=True, help="Number format of the operands.")
@prediction_options
@click.option("--causal", is_flag=True, help="attention: causal mask.")
@click.option(
    "--window", type=int, metavar="N", help="attention: sliding window of N keys, the query's own included."
)
@click.option("--kv-heads", type=int, metavar="N", help="attention: heads of K and V, where only Q is given.")
@click.option("--unfused", is_flag=True, help="attention: write the scores to memory and read them again.")
@click.option("--stride", type=int, metavar="N", help="conv, pool: step of the window.")
@click.option("--padding", metavar="N", help='conv, pool: zeros on each side, or "same".')
@click.option("--groups", type=int, metavar="N", help="conv, group_norm: groups of channels.")
@click.option("--kernel", type=int, metavar="N", help="pool: side of the window.")
@click.option("--hidden", type=int, metavar="N", help="lstm, gru: size of the state.")
@click.option("--layers", type=int, metavar="N", help="lstm, gru: how many.")
@click.option("--bias", is_flag=True, help="matmul, linear, conv: add one.")
@click.option("--peers", is_flag=True, help="all_reduce: by kernels that read their peers' memory.")
@click.option("--ranks", type=int, metavar="N", help="all_reduce, all_gather, …: how many take part.")
@click.option("--set", "more", multiple=True, metavar="NAME=VALUE", help="Any other setting of KIND.")
@own_time_option
@advice_option
@click.option("--list", "list_kinds", is_flag=True, help="List the kinds of operation and their settings.")
@output_options("Report")
def op(
    kind: str | None,
    shapes: tuple[str, ...],
    dtype: str,
    wanted: Wanted,
    unfused: bool,
    more: tuple[str, ...],
    time: str | None,
    advice: int | None,
    list_kinds: bool,
    as_json: bool,
    paths: tuple[str, ...],
    **flags: Any,
) -> int:
    """Count one operation KIND on operands of SHAPES: FLOP, bytes, intensity, its time on a machine.

    A shape is 4096x1024, or 4096x1024:int8 where an operand has a number format of its own.
    """
    if list_kinds:
        _list_kinds(as_json)
        return 0
    if kind is None:
        raise click.UsageError("op needs a KIND and the SHAPES of its operands (--list shows the kinds)")
    from rooflab import views
    from rooflab.story import op as count

    views.check_paths(paths, wanted.kind)
    needs_machine(paths, wanted.machines)
    attrs = {name: value for name, value in flags.items() if value is not None and value is not False}
    if unfused:
        attrs["fused"] = False
    if "padding" in attrs:
        attrs["padding"] = number_or_text(attrs["padding"])
    attrs |= {name: number_or_text(text) for name, text in pairs(more, "--set").items()}
    measured_s = None if time is None else _measured_s(time, wanted)
    report = count(kind, *shapes, dtype=dtype, attrs=attrs)
    return _deliver(report, wanted, None, paths, as_json, advice=advice, measured_s=measured_s)


def _measured_s(text: str, wanted: Wanted) -> float:
    """The seconds that `text` says, where there is one machine that they were taken on."""
    from rooflab.story.own_times import seconds

    if len(wanted.machines) != 1 or wanted.kind == "Variants":
        raise RooflabError(f"--time {text} needs the one --machine that it was measured on, without --what-if")
    return seconds(text, "--time")


@contextmanager
def _whole_traceback(wanted: bool) -> Iterator[None]:
    """Print what is behind an error, where that is `wanted`."""
    try:
        yield
    except RooflabError as error:
        if wanted:
            cause = error.__cause__ or error
            click.echo("".join(traceback.format_exception(cause)), nl=False, err=True)
        raise


def _list_kinds(as_json: bool) -> None:
    from rooflab.work import by_hand

    kinds = {kind: (by_hand.operands(kind), by_hand.settings(kind)) for kind in by_hand.kinds()}
    if as_json:
        known = {kind: {"operands": shapes, "settings": list(attrs)} for kind, (shapes, attrs) in kinds.items()}
        echo_json({"type": "Kinds", "schema": 1, "kinds": known})
    else:
        from rooflab.views.report.terminal import show_kinds

        show_kinds(kinds)
