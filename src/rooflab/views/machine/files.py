"""The files that a machine is written to."""

from __future__ import annotations

from rooflab.types.machine import Machine
from rooflab.views.common.files import Writer, json_writer, picture_writers
from rooflab.views.machine.page import html
from rooflab.views.machine.roofline import roofline


def _toml(machine: Machine) -> bytes:
    from rooflab.types import toml

    return toml.dumps(machine).encode()


# JSON and TOML hold everything; the pictures are the roofline.
WRITERS: dict[str, Writer] = {
    ".json": json_writer,
    ".toml": _toml,
    ".html": lambda machine: html(machine).encode(),
    **picture_writers(roofline),
}
