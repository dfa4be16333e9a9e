"""A transfer as people see it: its stages, what binds, how long a device waits."""

from __future__ import annotations

from typing import TextIO

from rooflab.types.transfer import Transfer
from rooflab.views.common import sheet as sheets
from rooflab.views.transfer.sheet import sheet_of

WRITERS = sheets.writers(sheet_of)


def show(transfer: Transfer, file: TextIO | None = None) -> None:
    """Print `transfer`."""
    sheets.show(sheet_of(transfer), file)


def html(transfer: Transfer) -> str:
    """The page of `transfer`."""
    return sheets.html(sheet_of(transfer))
