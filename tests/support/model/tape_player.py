"""Runs a tape (`model.program.tape`) in NumPy, as the page does in its own arrays."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np


def _unpacked(form: Any) -> np.ndarray:
    if not isinstance(form, dict):
        return np.array([[float(form)]])
    rows, columns = form["r"], form["c"]
    if "s" in form:
        flat = form["s"][0] + form["s"][1] * np.arange(rows * columns, dtype=float)
    elif "u" in form:
        flat = np.array(form["u"], float)[form["i"]]
    elif "b" in form:
        flat = np.frombuffer(base64.b64decode(form["b"]), "<f8")
    else:
        flat = np.array(form["v"], float)
    return flat.reshape(rows, columns)


class Player:
    """A tape, to be run with knobs."""

    def __init__(self, tape: dict[str, Any]) -> None:
        self.tape = tape
        self.constants = [_unpacked(each) for each in tape["constants"]]

    def run(self, factors: dict[str, float]) -> dict[str, dict[str, Any]]:
        """Columns of rows and levels, numbers of the program, with names of what binds."""
        tape = self.tape
        values = [np.array([[float(factors.get(name, start))]]) for name, start in tape["knobs"]]
        values += self.constants
        for name, *rest in tape["code"]:
            values.append(np.asarray(_applied(name, rest, values), float))
        count = len(tape["index"])
        rows = {part: {} for part in ("rows", "levels")}
        for part, columns in rows.items():
            for name, number in tape[part].items():
                columns[name] = self._named(name, np.broadcast_to(values[number], (count, 1))[:, 0].tolist())
        program = {name: self._named(name, [values[n].item()])[0] for name, n in tape["program"].items()}
        levels = {name: values[number].item() for name, number in tape["program_levels"].items()}
        return {**rows, "program": program, "program_levels": levels}

    def _named(self, name: str, column: list[float]) -> list[Any]:
        words = {"bound": self.tape["bounds"], "binds": self.tape["names"]}.get(name)
        return column if words is None else [words[int(each)] for each in column]


def _applied(name: str, rest: list[int], values: list[np.ndarray]) -> Any:
    if name in ("take", "put", "spread", "stack"):
        *operands, rows, columns = rest
        given = [values[number] for number in operands]
        return _moved(name, given, (rows, columns))
    given = [values[number] for number in rest]
    if name == "sum":
        return given[0].sum(keepdims=True)
    if name == "sum_rows":
        return given[0].sum(axis=0, keepdims=True)
    if name == "cumsum":
        return np.cumsum(given[0], axis=0)
    if name == "cummax":
        return np.maximum.accumulate(given[0], axis=0)
    if name == "diff":
        return np.diff(given[0], axis=0, prepend=0.0)
    with np.errstate(all="ignore"):  # both sides of a choice are computed
        return getattr(np, name)(*given)


def _moved(name: str, given: list[np.ndarray], shape: tuple[int, int]) -> np.ndarray:
    if name == "take":
        return given[0].ravel()[given[1].ravel().astype(int)].reshape(shape)
    if name == "put":
        into = np.array(np.broadcast_to(given[0], shape)).ravel()
        into[given[1].ravel().astype(int)] = given[2].ravel()
        return into.reshape(shape)
    if name == "spread":
        return np.broadcast_to(given[0], shape)
    return np.concatenate(
        [np.broadcast_to(each, (shape[0] * shape[1] // len(given), 1)) for each in given], 1
    ).reshape(shape)
