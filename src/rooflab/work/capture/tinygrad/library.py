"""The parts of tinygrad that a capture needs; the only place that imports it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

from rooflab.errors import MissingExtraError, RooflabError


class Library(NamedTuple):
    """The parts of tinygrad that a capture needs."""

    tensor: Any
    ops: Any
    uop: Any
    context: Any
    device: Any
    live: Any
    call: Callable[..., Any]
    schedule: Callable[..., Any]
    program: Callable[..., Any]


def library() -> Library:
    """The parts of tinygrad.

    Raises:
        MissingExtraError: it is not installed.
        RooflabError: a version that keeps them elsewhere.
    """
    try:
        tensor = importlib.import_module("tinygrad.tensor")
        ops = importlib.import_module("tinygrad.uop.ops")
        helpers, device = importlib.import_module("tinygrad.helpers"), importlib.import_module("tinygrad.device")
        schedule, codegen = (
            importlib.import_module("tinygrad.schedule"),
            importlib.import_module("tinygrad.codegen"),
        )
    except ImportError:
        raise MissingExtraError("tinygrad", "tinygrad", "counting the work of a tinygrad function") from None
    try:
        return Library(
            tensor.Tensor,
            ops.Ops,
            ops.UOp,
            helpers.Context,
            device.Device,
            tensor.all_tensors,
            tensor.transform_to_call,
            schedule.create_linear_with_vars,
            codegen.to_program,
        )
    except AttributeError as error:
        raise RooflabError(
            f"this version of tinygrad is not understood ({error}): python -m pip install 'tinygrad>=0.14,<0.15'"
        ) from error
