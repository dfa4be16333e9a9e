"""Lines of `perf stat`, as it prints them to people, with -x and with -j: each a reading of one event."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from rooflab.observe.reading.numerals import decimal_comma, numeral

_SEPARATORS = (",", ";", "\t", "|", "/", "!", "^", "@", "~", "&", ":")
_SCOPE = r"S\d+(?:-[A-Z]+\d+)*|N\d+|CPU-?\d+"
_COUNTED = r"-?\d+(?:[.,]\d+)?|<not (?:supported|counted)>"
_UNITS = ("msec", "ms", "ns", "sec", "Joules", "MiB", "KiB", "GiB", "MB", "Bytes", "64Bytes", "C", "%", "Cycles")
_TIME = re.compile(r"\d+[.,]\d{6,}")
_NOISE = re.compile(r"\(\s*\+-\s*([\d.,]+)%\s*\)")
_RUNNING = re.compile(r"\(([\d.,]+)%\)\s*$")
_METRIC = re.compile(r"(-?[\d.,]+|nan|inf)\s*(.*\S)")
_PAIR = re.compile(r'"([\w-]+)"\s*:\s*("(?:[^"\\]|\\.)*"|[-+\w.<>]+(?:,\d+)?)')
_HEADING = "Performance counter stats for"
_HEADER = re.compile(rf"{_HEADING}\s+(.*?)(?:\s+\((\d+) runs\))?\s*:\s*$")
_CLOCK = re.compile(
    r"\s*([\d.,]+)\s+(?:\+-\s+[\d.,]+\s+)?seconds (time elapsed|user|sys)\b", re.ASCII
)  # "+- 0.0000677" with -r
_INTERVALS = re.compile(r"#\s+time\b.*\bunit\s+events")
_JSON_JOIN = re.compile(r"\}\s*(?=\{)")  # some versions with -M: several objects on a line
_THOUSANDS = re.compile(r"(?<![^\s])\d{1,3}(?: \d{3})+(?:,\d+)?(?= )")  # "77 375 671", as French and others write
_MOST_CHARACTERS = 20_000  # of a line


class Reading(NamedTuple):
    """What a line says of an event.

    Attributes:
        event: "" for a line that has a metric only.
        value: None where it was not counted; `state` then says how perf calls that.
        scope: core, socket, CPU, thread or control group that it is of; "" for all together.
        end_s: of the interval, with -I.
        running: the share of the time in which it was counted; the value is extrapolated where below 1.
        metric, metric_unit: that perf computed from it, as text.
    """

    event: str
    value: float | None
    state: str = ""
    unit: str = ""
    scope: str = ""
    end_s: float | None = None
    running: float = 1.0
    metric: str = ""
    metric_unit: str = ""


class Run:
    """What was measured together: the readings of one command, or of one part of a file."""

    def __init__(self, name: str = "", runs: int = 1) -> None:
        self.name, self.runs = name, runs
        self.readings: list[Reading] = []
        self.clocks: dict[str, float] = {}  # "time elapsed", "user", "sys": seconds


class Lines(NamedTuple):
    """The runs of a file, and how many lines within them were no reading."""

    runs: list[Run]
    dropped: int


def is_perf_stat(text: str) -> bool:
    """Whether `text`, the first of a file, is of `perf stat`."""
    if f"{_HEADING} " in text or _INTERVALS.search(text):
        return True
    if re.search(r'"counter-value"\s*:\s*"', text) and '"event-runtime"' in text:
        return True
    lines = [line for line in text.splitlines()[:200] if line.strip() and not line.startswith("#")][:40]
    fitting = sum(_separated(line) is not None for line in lines)
    return fitting > 0 and 2 * fitting >= len(lines)


def read(text: str) -> Lines:
    """The readings in `text`, whatever way they are written, line by line."""
    runs = [Run()]
    dropped = 0
    comma = decimal_comma(re.findall(r"(?m)^\s*([\d.,\u00a0\u202f]+)\s+(?:seconds|msec)", text)[:50])
    within = False  # what perf prints for people, from its heading to the time elapsed
    separator: str | None = None
    for line in _objects_apart(text.splitlines()):
        if not line.strip() or len(line) > _MOST_CHARACTERS:
            dropped += bool(line.strip())
            continue
        header = _HEADER.search(line) if _HEADING in line else None
        if header:
            runs.append(Run(header.group(1).strip("'"), int((header.group(2) or "1")[:9])))
            within = True
        elif line.lstrip().startswith("#") and not re.match(r"\s*#\s*-?[\d.,]", line):
            within = within or bool(_INTERVALS.search(line))
            if not _INTERVALS.search(line) and not line.startswith("# started on") and runs[-1].readings:
                runs.append(Run(line.strip("# \t")))
            elif line.startswith("##"):
                runs[-1].name = line.strip("# \t")
        elif "seconds" in line and (clock := _CLOCK.match(line)):
            seconds = numeral(clock.group(1), comma)
            if seconds is not None:
                runs[-1].clocks[clock.group(2)] = seconds
        else:
            found, separator = _reading(line, within, comma, separator)
            if found is None:
                ended = "time elapsed" in runs[-1].clocks  # what follows is not perf's
                dropped += (within and not ended) or separator is not None
            else:
                runs[-1].readings.append(found)
    return Lines([run for run in runs if run.readings], dropped)


def _objects_apart(lines: Iterable[str]) -> Iterator[str]:
    """`lines`, one JSON object each, and without what a terminal showed of the key that ended perf."""
    for line in lines:
        if "counter-value" in line or "metric-value" in line:
            yield from _JSON_JOIN.sub("}\n", line).split("\n")
        else:
            yield line.removeprefix("^C")


def _reading(line: str, within: bool, comma: bool, separator: str | None) -> tuple[Reading | None, str | None]:
    """The reading in `line`, and the separator that was found in it or before it."""
    if '"counter-value"' in line or '"metric-value"' in line:
        return _from_json(line), separator
    split = _separated(line, separator)
    if split is not None:
        return split
    bare = _metric_alone(line, separator)
    if bare is not None:
        return bare, separator
    if within or _TIME.match(line.strip()):
        return _from_text(line, comma), separator
    return None, separator


def _number(text: str) -> float | None:
    """A number that has one point or comma at most, before its fraction."""
    text = text.strip().replace(",", ".")
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) and "_" not in text else None


def _share(text: str) -> float:
    found = _number(text)
    return 1.0 if found is None else min(found / 100, 1.0)


@cache
def _pattern(separator: str) -> re.Pattern[str]:
    """A line: [time] [scope [number of CPUs]] value unit event [control group] [noise] runtime share [metric]."""
    sign = re.escape(separator)
    cut = rf"[ ]*{sign}[ ]*"
    name = rf"[^{sign}/\s][^{sign}/]*/[^/]*/\w*|[^{sign}\s][^{sign}]*?"
    if separator == "/":
        name = r"[^/\s][^/]*?"
    name = rf"(?=[^{sign}]*[A-Za-z])(?:{name})"  # never a number alone, as a column of another table is
    return re.compile(
        rf"\s*(?:(?P<time>\d+[.,]\d{{3,}}){cut})?"
        rf"(?:(?P<cpu>CPU-?\d+){cut}|(?P<scope>{_SCOPE}){cut}(?:\d+{cut})?|(?P<thread>[^{sign}]+-\d+){cut})?"
        rf"(?P<value>{_COUNTED}){cut}(?P<unit>[A-Za-z%]*){cut}(?P<event>{name})"
        rf"(?:{cut}(?P<group>[^{sign}%]*?))??(?:{cut}(?P<noise>\d+[.,]\d+)%)?"
        rf"{cut}(?P<runtime>\d+){cut}(?P<running>100(?:[.,]0{{1,2}})?|\d{{1,2}}(?:[.,]\d{{1,2}})?)"
        rf"(?:{cut}(?P<metric>-?[\d.,]*)(?:{cut})?(?P<metric_unit>.*?))?[\s{sign}]*"
    )


def _separated(line: str, known: str | None = None) -> tuple[Reading, str] | None:
    plain = line.replace('"', "")
    for separator in (known, *_SEPARATORS) if known else _SEPARATORS:
        if separator not in plain:
            continue
        match = _pattern(separator).fullmatch(plain)
        if match is None:
            continue
        value = match.group("value")
        cell = {key: found or "" for key, found in match.groupdict().items()}
        # Where the fraction begins with a comma, -x cuts its metrics off there: "0" for 0.68 (tools/perf).
        cut_off = "," in cell["running"] or "," in value
        return (
            Reading(
                event=cell["event"].strip(),
                value=None if value.startswith("<") else _number(value),
                state=value.strip("<>") if value.startswith("<") else "",
                unit=cell["unit"] or _clock_unit(cell["event"], value),
                scope=cell["cpu"] or cell["scope"] or cell["thread"].strip() or cell["group"].strip(),
                end_s=_number(cell["time"]) if cell["time"] else None,
                running=_share(cell["running"]),
                metric="" if cut_off else cell["metric"].strip(separator + " "),
                metric_unit="" if cut_off else cell["metric_unit"].strip(separator + " "),
            ),
            separator,
        )
    return None


def _clock_unit(event: str, value: str) -> str:
    """The unit of the CPU's time where -x leaves it out, as older versions do: whole ns, or ms with a fraction."""
    if not re.match(r"(?:task|cpu)-clock\b", event):
        return ""
    return "msec" if re.search("[.,]", value) else "ns"


def _metric_alone(line: str, separator: str | None) -> Reading | None:
    """A line of -x with empty cells in place of the event: one more metric of the event before it."""
    if separator is None:
        return None
    cells = [cell.strip() for cell in line.split(separator)]
    filled = [cell for cell in cells if cell]
    if len(cells) - len(filled) < 4 or len(filled) < 2 or _number(filled[-2]) is None:
        return None
    return Reading("", None, metric=filled[-2], metric_unit=filled[-1])


def _from_json(line: str) -> Reading | None:
    """A line of -j; where it is no valid JSON (braces and commas are missing), by its pairs."""
    fields: dict[str, Any] = {}
    try:
        decoded = json.loads(line.strip().rstrip(","))
        if isinstance(decoded, dict):
            fields = decoded
    except (ValueError, RecursionError):
        fields = {key: text.strip('"') for key, text in _PAIR.findall(line)}

    def text(key: str) -> str:
        found = fields.get(key, "")
        return found if isinstance(found, str) else str(found)

    value = text("counter-value")
    event = text("event")
    if not event and not text("metric-value"):
        return None
    scope = next(
        (text(key) for key in ("core", "socket", "die", "node", "thread", "cache", "cgroup") if text(key)), ""
    )
    unit = text("metric-unit").strip()
    return Reading(
        event=event.strip(),
        value=_number(value) if event else None,
        state=value.strip("<>") if value.startswith("<") else "",
        unit=text("unit").strip(),
        scope=scope or (f"CPU{text('cpu')}" if text("cpu") else ""),
        end_s=_number(text("interval")) if "interval" in fields else None,
        running=_share(text("pcnt-running")) if "pcnt-running" in fields else 1.0,
        metric="" if unit in ("", "(null)") else text("metric-value"),
        metric_unit="" if unit == "(null)" else unit,
    )


def _from_text(line: str, comma: bool) -> Reading | None:
    """A line for people: [time] [scope [number of CPUs]] value [unit] event [# metric] [(noise)] [(share)]."""
    running = _RUNNING.search(line)
    line = _RUNNING.sub("", _NOISE.sub("", line))
    left, mark, right = line.partition("#")
    metric = _METRIC.match(right.strip()) if mark else None
    said, unit = (metric.group(1), metric.group(2)) if metric else ("", "")
    left, old_msec = re.subn(r" \(msec\)\s*$", "", left)  # "1.5 task-clock (msec)", older versions
    left = _THOUSANDS.sub(lambda found: found[0].replace(" ", "\u202f"), left)
    words = re.split(r"[ \t]+", re.sub(r"<not (\w+)>", r"<not_\1>", left).strip())
    if words == [""] or words[0].startswith("Topdown"):  # "TopdownL1 (cpu_core)": the name of a set of metrics
        return Reading("", None, metric=said, metric_unit=unit) if metric else None
    timed = len(words) > 2 and words[1] not in _UNITS and _TIME.fullmatch(words[0])
    end_s = _number(words.pop(0)) if timed else None
    if len(words) < 2:
        return None
    event = words.pop()
    scaled = words.pop() if len(words) > 1 and words[-1] in _UNITS else "msec" if old_msec else ""
    value = words.pop()
    if words and re.fullmatch(r"\d+", words[-1]) and len(words) > 1:
        words.pop()  # how many CPUs the scope has
    scope = " ".join(words)
    if scope and not re.fullmatch(rf"{_SCOPE}|.*-\d+", scope):
        return None
    number = None if value.startswith("<") else numeral(value, comma)
    if number is None and not value.startswith("<not_"):
        return None
    return Reading(
        event=event,
        value=number,
        state=value.strip("<>").replace("_", " ") if number is None else "",
        unit=scaled,
        scope=scope,
        end_s=end_s,
        running=_share(running.group(1)) if running else 1.0,
        metric=said,
        metric_unit=unit,
    )


def events_of(run: Run) -> Iterator[Reading]:
    """The readings of `run` that are of an event."""
    return (one for one in run.readings if one.event)
