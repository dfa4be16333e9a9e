"""Files of requests: traces of services, and what `rooflab` itself names plainly, as CSV or JSON lines."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rooflab.errors import FileError, near_matches
from rooflab.model.serving.requests import Requests

_NAMED_FAULTS = 3
_PREFIX_BLOCK = 512  # tokens that one of Mooncake's hash_ids stands for


class Form(NamedTuple):
    """One form of files: its columns, in lower case, and seconds of one unit of its times (0 for dates).

    Attributes:
        blocks: column of a list of numbers that stand for the same `_PREFIX_BLOCK` tokens wherever they are equal.
    """

    name: str
    arrival: str
    prompt: str
    answer: str
    unit_s: float
    cached: str = ""
    blocks: str = ""


FORMS = (
    Form("rooflab's own", "arrival_s", "prompt_tokens", "answer_tokens", 1.0, cached="cached_tokens"),
    # github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md
    Form("Azure's traces", "timestamp", "contexttokens", "generatedtokens", 0.0),
    # github.com/HPMLL/BurstGPT: seconds from 0:00 of the first day
    Form("BurstGPT", "timestamp", "request tokens", "response tokens", 1.0),
    # github.com/kvcache-ai/Mooncake, FAST25-release: milliseconds
    Form("Mooncake's traces", "timestamp", "input_length", "output_length", 1e-3, blocks="hash_ids"),
    # github.com/casys-kaist/LLMServingSim
    Form("LLMServingSim", "arrival_time_ns", "input_toks", "output_toks", 1e-9),
)


def read_requests(path: str | Path) -> Requests:
    """The requests in the file at `path`, in the order of their arrival; the first comes at 0.

    A line that is no request (a missing or negative number) is left out, counted and named.

    Raises:
        FileError: a file that cannot be read, is of no known form, or holds no request.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    lines = list(_json_lines(text) if text.lstrip().startswith("{") else _csv_lines(text))
    form = _form(path, lines)
    found, faults = [], []
    seen: set[Any] = set()
    for number, line in lines:
        try:
            found.append(_request(form, line, seen))
        except ValueError as error:
            faults.append(f"line {number}: {error}")
    if not found:
        raise FileError(f"{path}: no request in {len(lines)} lines: {faults[0]}")
    rows = np.array(found, float)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    whole = rows[:, 1:].astype(np.int64)
    span_s = rows[-1, 0] - rows[0, 0]
    name = f"{path.name}: {len(rows):,} requests in {span_s:,.3g} s, form of {form.name}"
    return Requests(
        name,
        rows[:, 0] - rows[0, 0],
        whole[:, 0],
        whole[:, 1],
        np.minimum(whole[:, 2], whole[:, 0] - 1),
        dropped=len(faults),
        faults=tuple(faults[:_NAMED_FAULTS]),
    )


def _csv_lines(text: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    reader = csv.reader(io.StringIO(text))
    names = [name.strip().lower() for name in next(reader, [])]
    for row in reader:
        if row:
            yield reader.line_num, dict(zip(names, row, strict=False))


def _json_lines(text: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
        except ValueError as error:
            yield number, f"not JSON: {error}"
            continue
        yield number, {key.lower(): raw[key] for key in raw} if isinstance(raw, dict) else "not an object"


def _form(path: Path, lines: list[tuple[int, dict[str, Any] | str]]) -> Form:
    names = next((line.keys() for _, line in lines if isinstance(line, dict)), None)
    if names is None:
        raise FileError(f"{path}: no line that holds a request; expected CSV with a line of names, or JSON lines")
    for form in FORMS:
        if {form.arrival, form.prompt, form.answer} <= names:
            return form
    own = FORMS[0]
    wanted = [own.arrival, own.prompt, own.answer]
    near = near_matches(wanted[0], names, 1)
    hint = f" (is {near[0]!r} it?)" if near else ""
    raise FileError(
        f"{path}: columns {', '.join(sorted(names))}: expected {', '.join(wanted)}{hint}, or those of "
        f"{', '.join(form.name for form in FORMS[1:])}"
    )


def _request(form: Form, line: dict[str, Any] | str, seen: set[Any]) -> tuple[float, int, int, int]:
    if isinstance(line, str):
        raise ValueError(line)
    arrival = line.get(form.arrival)
    if form.unit_s:
        arrival_s = _number(form.arrival, arrival) * form.unit_s
    else:
        try:
            # Azure's have seven digits of a second, of which Python takes six.
            whole, _, part = str(arrival).partition(".")
            moment = datetime.fromisoformat(whole)
            arrival_s = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() + float(f"0.{part or 0}")
        except ValueError:
            raise ValueError(f"{form.arrival} {arrival!r} is no time") from None
    prompt, answer = (_tokens(name, line.get(name), 1) for name in (form.prompt, form.answer))
    cached = _tokens(form.cached, line[form.cached], 0) if line.get(form.cached) not in (None, "") else 0
    blocks = line.get(form.blocks) if form.blocks else None
    if isinstance(blocks, list):
        known = next((n for n, block in enumerate(blocks) if block not in seen), len(blocks))
        seen.update(blocks)
        cached = known * _PREFIX_BLOCK
    return arrival_s, prompt, answer, cached


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} {value!r} is no number") from None
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{name} {value!r}, expected a number from 0 on")
    return number


def _tokens(name: str, value: Any, least: int) -> int:
    number = _number(name, value)
    if number != int(number) or number < least:
        raise ValueError(f"{name} {value!r}, expected a whole number from {least} on")
    return int(number)
