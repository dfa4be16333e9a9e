"""The commands about work: `analyze` a program, count one `op` by hand."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.model.constants import Constants
    from rooflab.model.whatif import Change
    from rooflab.types.report import Report

_MACHINES = "Predict time and what binds on it: a name of `rooflab machines`, or a file; a,b,c are compared."
_CONSTANTS = "Predict with the constants in this file, which `rooflab calibrate` wrote."
_WHAT_IF = "Change the machine or the work (bandwidth=2x,dtype=fp8,batch=64); may be given again."
_MODE = "How it runs: by default eager for PyTorch, compiled for JAX, graph for the others."
_CACHE = "warm: it runs again and again; cold: nothing is in the caches."
_POWER = "sustained: power and heat limit the clock."
_OUTPUT = "Write the report to FILE (.json, .csv, .html, .svg, .png or .pdf); may be given again."
_JSON = "Print JSON to stdout and nothing else."
# A blank line before, and this mark above, an example keeps click from refilling it.
_AS_IS = "\b\n"
_GROUPS, _SORTS = ("module", "kind", "op"), ("time", "flop", "bytes", "intensity", "order")
_MODES, _CACHES, _POWERS = ("eager", "graph", "compiled"), ("warm", "cold"), ("burst", "sustained")


@click.command(
    short_help="List every operation of a model with its FLOP and bytes.",
    epilog=f"{_AS_IS}Example:\n  rooflab analyze examples/two_layers.py:model --batch 64 --machine h200-sxm",
)
@click.argument("target")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Short for --dim batch=N.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=N", help="A keyword of NAME, or a symbolic size.")
@click.option("--backward", is_flag=True, help="Count the backward pass too.")
@click.option("--optimizer", metavar="NAME", help="Count the backward pass and a step of it too: sgd, adamw, …")
@click.option("--device", default="cuda", show_default=True, help="Device whose kernels are counted: cuda, cpu.")
@click.option("--unfused", is_flag=True, help="Count attention with its scores written to memory and read again.")
@click.option("--machine", metavar="NAME", help=_MACHINES)
@click.option("--mode", type=click.Choice(_MODES), help=_MODE)
@click.option("--cache", type=click.Choice(_CACHES), default="warm", show_default=True, help=_CACHE)
@click.option("--power", type=click.Choice(_POWERS), default="burst", show_default=True, help=_POWER)
@click.option("--constants", metavar="FILE", help=_CONSTANTS)
@click.option("--what-if", "what_ifs", multiple=True, metavar="NAME=VALUE,…", help=_WHAT_IF)
@click.option("--group-by", type=click.Choice(_GROUPS), default="module", show_default=True, help="Subtotals.")
@click.option("--sort", type=click.Choice(_SORTS), help="Order of the lines; by default the largest first.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Lines of each table.")
@click.option("--debug", is_flag=True, help="Show the whole traceback of an error in the target.")
@click.option("--json", "as_json", is_flag=True, help=_JSON)
@click.option("-o", "--output", "paths", multiple=True, metavar="FILE", help=_OUTPUT)
def analyze(
    target: str,
    batch: int | None,
    dims: tuple[str, ...],
    backward: bool,
    optimizer: str | None,
    device: str,
    unfused: bool,
    machine: str | None,
    mode: Any,
    cache: Any,
    power: Any,
    constants: str | None,
    what_ifs: tuple[str, ...],
    group_by: Any,
    sort: str | None,
    top: int | None,
    debug: bool,
    as_json: bool,
    paths: tuple[str, ...],
) -> int:
    """List every operation of TARGET with its FLOP, bytes and intensity; no weights, no GPU.

    TARGET is FILE.py:NAME, package.module:NAME or model.onnx. NAME is a function that needs no
    argument. It is called once: where it returns (module, inputs) or (module, args, kwargs), that
    module is analyzed on those inputs; else the function itself is, as it runs.

    \b
      def model(batch=8):                    # rooflab analyze FILE.py:model --batch 64
          with torch.device("meta"):         # no memory is needed for "meta" tensors
              return torch.nn.Linear(4096, 1024), torch.empty(batch, 4096)
    """
    from rooflab.views.report_export import check_writable

    check_writable(paths)
    sizes = _numbers(dims)
    if batch is not None:
        sizes["batch"] = batch
    changes = _changes(what_ifs, machine, mode)
    from rooflab.story import machine as find

    # A wrong name of a machine is said before the target runs.
    machines = {name: find(name) for name in _names(machine)}
    given = _constants(constants, machine)
    how = {"backward": backward, "optimizer": optimizer, "device": device}
    how["attention"] = "unfused" if unfused else "fused"

    def captured(sizes: dict[str, int]) -> Report:
        with _whole_traceback(debug):
            return _captured(target, sizes, how)

    report = captured(sizes)
    variants: list[tuple[str, Report]] = []
    for name, each in machines.items():
        variants.append((name, report.on(each, mode=mode, cache=cache, power=power, constants=given)))
        for text, change in changes:
            other = captured({**sizes, "batch": change.batch}) if change.batch else report
            rest = _without_batch(text)
            found = other.on(each, mode=mode, cache=cache, power=power, what_if=rest, constants=given)
            variants.append((f"{name}, {text}", found))
    if len(variants) > 1:
        _compared(variants, paths, as_json)
    else:
        chosen = variants[0][1] if variants else report
        _answer(chosen, paths, as_json, group_by=group_by, sort=sort, top=top)
    return 0


def _captured(target: str, sizes: dict[str, int], how: dict[str, Any]) -> Report:
    from rooflab.story import analyze as run
    from rooflab.work import target as targets

    chosen = targets.load(target, sizes)
    with targets.located(target):
        return run(
            chosen.program,
            *chosen.args,
            kwargs=chosen.kwargs,
            name=chosen.name,
            dims=chosen.dims or None,
            **how,
        )


def _names(machine: str | None) -> list[str]:
    """The names in "a,b,c"; a path with a comma in it is one name."""
    if machine is None or os.path.exists(machine):
        return [] if machine is None else [machine]
    return [name.strip() for name in machine.split(",") if name.strip()]


def _constants(path: str | None, machine: str | None) -> Constants | None:
    from rooflab.model import overrides

    if path is not None and machine is None:
        raise click.UsageError("--constants is for a prediction, and that needs a --machine")
    return None if path is None else overrides.read(path)


def _changes(what_ifs: tuple[str, ...], machine: str | None, mode: str | None = None) -> list[tuple[str, Change]]:
    from rooflab.model import whatif

    if mode is not None and machine is None:
        raise click.UsageError("--mode is of a prediction, and that needs a --machine")
    if what_ifs and machine is None:
        raise click.UsageError("--what-if changes a prediction, and that needs a --machine")
    return [(text, whatif.change(text)) for text in what_ifs]


def _without_batch(text: str) -> str | None:
    """The what-if `text` without its batch, which is met by capturing again; None where nothing is left."""
    return ",".join(pair for pair in text.split(",") if pair.partition("=")[0].strip() != "batch") or None


def _compared(variants: list[tuple[str, Report]], paths: tuple[str, ...], as_json: bool) -> None:
    from rooflab.views import compare, export

    if as_json:
        click.echo(export.json_text(compare.to_dict(variants)).encode(), nl=False)
    else:
        compare.show(variants)
    for path in paths:
        if not path.lower().endswith(".json"):
            raise RooflabError(f"{path}: several predictions are written as one .json file; expected such a path")
        export.write(Path(path), export.json_text(compare.to_dict(variants)).encode())
        click.echo(f"rooflab: wrote {path}", err=True)


@click.command(
    short_help="Count one operation from its shapes.",
    epilog=f"{_AS_IS}Example:\n  rooflab op matmul 4096x4096 4096x4096 --dtype bf16 --machine h200-sxm",
)
@click.argument("kind", required=False)
@click.argument("shapes", nargs=-1)
@click.option("--dtype", default="fp32", metavar="NAME", show_default=True, help="Number format of the operands.")
@click.option("--machine", metavar="NAME", help=_MACHINES)
@click.option("--cache", type=click.Choice(_CACHES), default="warm", show_default=True, help=_CACHE)
@click.option("--power", type=click.Choice(_POWERS), default="burst", show_default=True, help=_POWER)
@click.option("--constants", metavar="FILE", help=_CONSTANTS)
@click.option("--what-if", "what_ifs", multiple=True, metavar="NAME=VALUE,…", help=_WHAT_IF)
@click.option("--causal", is_flag=True, help="attention: a query sees no later key.")
@click.option("--window", type=int, metavar="N", help="attention: keys that a query sees, its own included.")
@click.option("--kv-heads", type=int, metavar="N", help="attention: heads of K and V, where only Q is given.")
@click.option("--unfused", is_flag=True, help="attention: scores are written to memory and read again.")
@click.option("--stride", type=int, metavar="N", help="conv, pool: step of the window.")
@click.option("--padding", metavar="N", help='conv, pool: zeros on each side, or "same".')
@click.option("--groups", type=int, metavar="N", help="conv, group_norm: groups of channels.")
@click.option("--kernel", type=int, metavar="N", help="pool: side of the window.")
@click.option("--hidden", type=int, metavar="N", help="lstm, gru: size of the state.")
@click.option("--layers", type=int, metavar="N", help="lstm, gru: how many.")
@click.option("--bias", is_flag=True, help="matmul, linear, conv: add one.")
@click.option("--ranks", type=int, metavar="N", help="all_reduce, all_gather, …: how many take part.")
@click.option("--set", "more", multiple=True, metavar="NAME=VALUE", help="Any other setting of KIND.")
@click.option("--list", "list_kinds", is_flag=True, help="List the kinds of operation and their settings.")
@click.option("--json", "as_json", is_flag=True, help=_JSON)
@click.option("-o", "--output", "paths", multiple=True, metavar="FILE", help=_OUTPUT)
def op(
    kind: str | None,
    shapes: tuple[str, ...],
    dtype: str,
    machine: str | None,
    cache: Any,
    power: Any,
    constants: str | None,
    what_ifs: tuple[str, ...],
    unfused: bool,
    more: tuple[str, ...],
    list_kinds: bool,
    as_json: bool,
    paths: tuple[str, ...],
    **flags: Any,
) -> int:
    """Count one operation KIND on operands of SHAPES: FLOP, bytes, intensity, its time on a machine.

    A shape is 4096x1024, or 4096x1024:int8 where an operand has a number format of its own.
    """
    from rooflab.views.report_export import check_writable

    check_writable(paths)
    if list_kinds:
        _list_kinds(as_json)
        return 0
    if kind is None:
        raise click.UsageError("op needs a KIND and the SHAPES of its operands (--list shows the kinds)")
    given = {name: value for name, value in flags.items() if value is not None and value is not False}
    if unfused:
        given["fused"] = False
    if "padding" in given:
        given["padding"] = _value(given["padding"])
    given |= {name: _value(text) for name, text in _pairs(more, "--set")}
    from rooflab.story import op as count

    changes, fitted = _changes(what_ifs, machine), _constants(constants, machine)
    report, variants = count(kind, *shapes, dtype=dtype, **given), []
    for name in _names(machine):
        for text in (None, *(text for text, _ in changes)):
            found = report.on(name, cache=cache, power=power, what_if=text, constants=fitted)
            variants.append((name if text is None else f"{name}, {text}", found))
    if len(variants) > 1:
        _compared(variants, paths, as_json)
    else:
        _answer(variants[0][1] if variants else report, paths, as_json)
    return 0


def _answer(report: Report, paths: tuple[str, ...], as_json: bool, **how: Any) -> None:
    from rooflab.views import report_export

    if paths:  # first: whoever reads the terminal may stop reading
        report_export.save(report, *paths)
        click.echo(f"rooflab: wrote {', '.join(paths)}", err=True)
    if as_json:
        click.echo(report_export.json_text(report).encode(), nl=False)
    else:
        from rooflab.views import report_terminal

        report_terminal.show(report, **how)


@contextmanager
def _whole_traceback(wanted: bool) -> Iterator[None]:
    """Print what is behind an error, where that is `wanted`."""
    try:
        yield
    except RooflabError as error:
        if wanted:
            behind = error.__cause__ or error
            click.echo("".join(traceback.format_exception(behind)), nl=False, err=True)
        raise


def _list_kinds(as_json: bool) -> None:
    from rooflab.work import by_hand

    found = {kind: by_hand.settings(kind) for kind in by_hand.kinds()}
    if as_json:
        from rooflab.views.export import json_text

        click.echo(json_text({kind: list(settings) for kind, settings in found.items()}).encode(), nl=False)
    else:
        from rooflab.views import report_terminal

        report_terminal.show_kinds(found)


def _numbers(pairs: tuple[str, ...]) -> dict[str, int]:
    made = {}
    for name, text in _pairs(pairs, "--dim"):
        if not text.isdecimal():
            raise RooflabError(f"--dim {name}={text}: {text!r} is not a whole number, expected such as {name}=8")
        made[name] = int(text)
    return made


def _pairs(texts: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    made = []
    for text in texts:
        name, _, value = text.partition("=")
        if not name or not value:
            raise RooflabError(f"{option} {text}: expected NAME=VALUE")
        made.append((name, value))
    return made


def _value(text: str) -> Any:
    """A number, True or False, or the text itself."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            # not a number of that sort: the next, and in the end the text, is meant
            continue
    return text
