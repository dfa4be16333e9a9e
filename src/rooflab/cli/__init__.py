"""The command line: argument parsing only. Everything heavy is imported inside its command."""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import os
import sys
from typing import NoReturn

import click

from rooflab import __version__
from rooflab.cli.delivery import INTERRUPTED
from rooflab.cli.options import examples
from rooflab.errors import RooflabError

BAD_INPUT = 2
_ALLOCATIONS = 200_000  # more than are freed, between two looks for what refers to itself; by default 700
# What click raises for `rooflab` alone, from its release 8.2 on.
_HELP: tuple[type[click.UsageError], ...] = tuple(
    filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)])
)


def main() -> NoReturn:
    """Run the command that `sys.argv` holds, and exit: 0, 1 for a failed gate, 2 for bad input, 130 for Ctrl-C."""
    # A report is made of many small objects that last: Python would look through all of them again and again.
    gc.set_threshold(_ALLOCATIONS)
    _open_what_is_closed()
    try:
        code = cli.main(prog_name="rooflab", standalone_mode=False)
        sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        # Abort is click's word for Ctrl-C.
        click.echo("rooflab: interrupted, nothing was saved", err=True)
        code = INTERRUPTED
    except _HELP as error:
        click.echo(error.format_message(), err=True)
        code = error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "rooflab"
        click.echo(f"rooflab: {error.format_message()} (see {command} --help)", err=True)
        code = error.exit_code
    except RooflabError as error:
        click.echo(f"rooflab: {error}", err=True)
        code = BAD_INPUT
    except BrokenPipeError:
        # The reader of the pipe has left (`| head`): not an error.
        _drop_stdout()
        code = 0
    except OSError as error:
        click.echo(f"rooflab: {_system_error(error)}", err=True)
        _drop_stdout()
        code = BAD_INPUT
    except MemoryError:
        click.echo(f"rooflab: {_out_of_memory()}", err=True)
        code = BAD_INPUT
    except ImportError as error:
        click.echo(
            f"rooflab: this installation is broken: {_one_line(error)}{_address_space()}; install rooflab again",
            err=True,
        )
        code = BAD_INPUT
    # all of it goes with the process, if this ends it: what refers to itself need not be looked for once more
    atexit.register(gc.freeze)
    sys.exit(code)


def _open_what_is_closed() -> None:
    """Give nowhere to streams that the caller closed (`>&-`), before a file takes their place and their output."""
    for name, how in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, how, encoding="utf-8"))  # noqa: SIM115  for as long as we run


def _drop_stdout() -> None:
    """Let Python's last flush of stdout go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _system_error(error: OSError) -> str:
    """What the operating system refused: memory, a library that cannot be loaded, or stdout."""
    if error.errno == errno.ENOMEM:
        return _out_of_memory()
    if error.errno is None:
        # ctypes and llvmlite raise a bare OSError where a shared library cannot be mapped.
        first = str(error).strip().split("\n")[0][:120]
        return f"a library cannot be loaded{_address_space()}: {first}"
    # Files are answered for where they are opened; what has no name is stdout (a full disk behind `>`).
    return f"{error.filename or 'cannot write to stdout'}: {error.strerror or error}"


def _out_of_memory() -> str:
    return f"out of memory{_address_space()}; give it more, or ask for less at once"


def _address_space() -> str:
    """The limit on this process's address space, where there is one."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return ""
    from rooflab.units import si

    return f" (the address space is limited to {si(limit, 'B')}: ulimit -v, prlimit --as)"


def _one_line(error: ImportError) -> str:
    """What could not be imported; a library's own text may go over many lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{error.name or 'a library'}: {lines[-1] if lines else type(error).__name__}"


# Which file each command is in.
_COMMANDS = {
    "measure": "measure",
    "machine": "machine",
    "analyze": "programs",
    "op": "programs",
    "loop": "loop",
    "simulate": "simulate",
    "transfer": "transfer",
    "calibrate": "calibrate",
    "lab": "lab",
    "load": "load",
    "show": "show",
    "compare": "compare",
    "doctor": "doctor",
    "fleet": "fleet",
    "hotspots": "hotspots",
    "run": "run",
    "time": "time",
    "serve": "serving",
    "serve-plan": "serving",
}


class _Commands(click.Group):
    """Commands whose files are imported when they are asked for: `rooflab run` waits for none but its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all, as the help lists them."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command called `cmd_name`."""
        if cmd_name not in _COMMANDS:
            return None
        return getattr(importlib.import_module(f"rooflab.cli.{_COMMANDS[cmd_name]}"), cmd_name.replace("-", "_"))


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples("rooflab measure -o machine.html"),
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """What limits this code on this machine, how far is it from the limit, and what would help?"""
