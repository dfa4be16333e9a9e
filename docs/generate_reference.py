"""Writes `docs/reference/` from the code: `python docs/generate_reference.py`; a test says when to."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import click

import rooflab
from rooflab.cli import cli
from rooflab.types.result import Result

REFERENCE = Path(__file__).parent / "reference"
_GENERATED = "<!-- Written by docs/generate_reference.py: change the code's own words instead. -->"


def pages() -> dict[str, str]:
    """Each page's Markdown by its file name."""
    return {"cli.md": _page(_command_line()), "api.md": _page(_api())}


def _page(lines: Iterator[str]) -> str:
    return "\n".join([_GENERATED, "", *lines]).rstrip() + "\n"


def _command_line() -> Iterator[str]:
    yield from ("# Commands", "", _text(cli.help), "")
    codes = "0; 1 for a condition of `compare` that failed; 2 for bad input, with one line that says what"
    yield from (f"Exit codes: {codes}; 130 after Ctrl-C.", "")
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            for below, each in sorted(command.commands.items()):
                yield from _command(f"{name} {below}", each)
        else:
            yield from _command(name, command)


def _command(name: str, command: click.Command) -> Iterator[str]:
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    operands = "".join(f" {_operand(each)}" for each in arguments)
    words, _, example = (command.help or "").partition("\b")
    yield from (f"## `rooflab {name}`", "", _text(words), "")
    if example:
        yield from ("```text", inspect.cleandoc(example), "```", "")
    yield from ("```text", f"rooflab {name} [OPTIONS]{operands}", "```", "", "| option | |", "|---|---|")
    for each in command.params:
        if isinstance(each, click.Option):
            words = ", ".join(each.opts) + (f" {each.metavar}" if each.metavar else "")
            more = " May be given again." if each.multiple and "again" not in (each.help or "") else ""
            yield f"| `{words}` | {_text(each.help)}{more} |"
    example = (command.epilog or "").replace("\b", "")
    title, _, example = example.strip().partition(":\n")
    yield from ("", f"{title}:", "", "```sh", inspect.cleandoc(example), "```", "")


def _operand(argument: click.Argument) -> str:
    name = (argument.name or "").upper() + ("…" if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _api() -> Iterator[str]:
    yield from ("# Python names", "", "Everything that `import rooflab` offers.", "")
    yield from ("## Every result", "", *_documentation(Result), *_methods("result", Result))
    values = {name: getattr(rooflab, name) for name in rooflab.__all__}
    for name, value in sorted(values.items(), key=lambda item: (isinstance(item[1], type), item[0])):
        if not isinstance(value, type):
            yield from (f"## `rooflab.{name}`", "", *_signature(name, value))
        else:
            yield from (f"## `rooflab.{name}`", "", *_documentation(value), *_fields(value))
            if issubclass(value, Result):
                yield from ("It can do what [every result](#every-result) can.", "")
            yield from _methods(name, value)
    for name, module in rooflab._MODULES.items():
        yield from _module(name, importlib.import_module(module))


def _methods(name: str, cls: type) -> Iterator[str]:
    """The methods that `cls` has of its own; those that every result has are told once."""
    for method, function in vars(cls).items():
        is_method = inspect.isfunction(inspect.unwrap(getattr(function, "__func__", function)))
        told = cls is not Result and method in vars(Result)
        if is_method and not method.startswith("_") and not told:
            yield from (f"### `{name}.{method}`", "", *_signature(method, getattr(cls, method)))


def _module(name: str, module: ModuleType) -> Iterator[str]:
    """A module that is used by name: its functions, each with the first line of what it says."""
    yield from (f"## `rooflab.{name}`", "", (inspect.getdoc(module) or "").splitlines()[0], "")
    yield from ("| name | |", "|---|---|")
    for member in module.__all__:
        value = getattr(module, member)
        if callable(value):
            text = f"{member}({', '.join(inspect.signature(value).parameters)})"
            yield f"| `{text}` | {(inspect.getdoc(value) or '').splitlines()[0]} |".replace("||", "\\|\\|")
    yield ""


def _signature(name: str, function: Callable[..., object]) -> Iterator[str]:
    # Annotations are text under `from __future__ import annotations`; defaults keep their quotes.
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(function)))
    yield from ("```python", f"{name}{text}", "```", "")
    yield from _documentation(function)


def _documentation(value: object) -> Iterator[str]:
    yield from ("```text", inspect.getdoc(value) or "", "```", "")


def _fields(cls: type) -> Iterator[str]:
    """The fields of a struct, with their types and defaults."""
    names = getattr(cls, "__struct_fields__", ())
    if not names:
        return
    defaults = dict(zip(reversed(names), reversed(cls.__struct_defaults__), strict=False))  # type: ignore[attr-defined]
    yield from ("| field | type | default |", "|---|---|---|")
    for name in names:
        type_text = str(cls.__annotations__[name]).replace("|", "\\|")
        default = f"`{_default(defaults[name])}`" if name in defaults else "required"
        yield f"| `{name}` | `{type_text}` | {default} |"
    yield ""


def _default(value: object) -> object:
    factory = getattr(value, "factory", None)
    if factory is not None:
        return factory()
    return "required" if type(value).__name__ == "NoDefault" else repr(value)


def _text(text: str | None) -> str:
    return " ".join((text or "").split())


if __name__ == "__main__":
    REFERENCE.mkdir(exist_ok=True)
    for file_name, markdown in pages().items():
        (REFERENCE / file_name).write_text(markdown, encoding="utf-8")
