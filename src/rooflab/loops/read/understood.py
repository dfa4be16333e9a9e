"""A loop that was read and is understood: its source, the types of its values, its arguments."""

from __future__ import annotations

from typing import NamedTuple

from rooflab.loops.read.arguments import Arguments
from rooflab.loops.read.source import Source
from rooflab.loops.read.value_types import ValueTypes


class Understood(NamedTuple):
    """A loop, ready to be counted, compiled and analysed."""

    source: Source
    value_types: ValueTypes
    arguments: Arguments
