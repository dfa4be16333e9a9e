"""The files that a machine is written to."""

from __future__ import annotations

from rooflab.types.machine import Machine
from rooflab.views.common import markdown as texts
from rooflab.views.common.files import Writer, json_writer, picture_writers
from rooflab.views.common.lines import writers
from rooflab.views.common.table import Table
from rooflab.views.machine import tables
from rooflab.views.machine.lines import lines
from rooflab.views.machine.page import html
from rooflab.views.machine.roofline import roofline


def _toml(machine: Machine) -> bytes:
    from rooflab.types import toml

    return toml.dumps(machine).encode()


def markdown(machine: Machine) -> str:
    """`machine` for a pull request: its roofs; failed checks first."""
    failed = [f"self-check failed: {check.name}: {check.message}" for check in machine.checks if not check.ok]
    first, *others = tables.every(machine) or (Table("", (), ()),)
    said = (*tables.facts(machine), tables.ridge_sentence(machine) or "")
    return texts.document(machine.name, filter(None, said), (first,), warnings=failed, folded=others)


# JSON and TOML hold everything, CSV and Parquet a line for each rate; the pictures are the roofline.
WRITERS: dict[str, Writer] = {
    ".json": json_writer,
    ".toml": _toml,
    **writers(lines),
    ".md": lambda machine: markdown(machine).encode(),
    ".html": lambda machine: html(machine).encode(),
    **picture_writers(roofline),
}
