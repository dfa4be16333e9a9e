"""Every type of result: JSON and back, newer and foreign files refused, a short repr, shown, saved, a cell."""

from __future__ import annotations

import csv
import functools
import importlib
import importlib.util
import io
import itertools
import json
import re
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet
import pytest

import rooflab
from rooflab import views
from rooflab.cli.delivery import SUFFIXES
from rooflab.comparing.fleet import judged
from rooflab.errors import FileError, RooflabError
from rooflab.types.fleet import FleetNode
from rooflab.types.hotspots import Hotspots, Spot
from rooflab.types.result import RESULTS, Result
from rooflab.types.result import read as read_result
from rooflab.types.run import Run
from rooflab.types.timed_call import CallTimes, Surroundings, TimedCall
from rooflab.types.usage import Usage

EXAMPLES = Path(__file__).parents[2] / "examples"
LEVELS = [rooflab.Cache(4096, 4, name="L1"), rooflab.Cache(65536, 8, name="L2")]


def triad(a, b, c):
    for i in range(len(a)):
        a[i] = b[i] + 3.0 * c[i]


def blocked(a, t):
    for ii in range(0, a.shape[0], t):
        for i in range(ii, min(ii + t, a.shape[0])):
            a[i] = 2.0


# The simulator of several cores takes half a minute to compile.
KINDS = [pytest.param(kind, marks=[pytest.mark.slow] if kind == "CoreSimulation" else []) for kind in RESULTS]


@pytest.fixture(scope="module")
def makers(tmp_path_factory):
    """How to get a result of each type, by the type's name."""
    lab = rooflab.lab
    times = tmp_path_factory.mktemp("timings") / "times.csv"
    rows = [f"exp,{size},fp32,{size / 1e9}" for size in range(10_000, 90_000, 10_000)]
    times.write_text("\n".join(["kind,shapes,dtype,time_s", *rows]) + "\n", encoding="utf-8")
    arrays = [np.ones(64) for _ in range(3)]
    system = lab.System(core=lab.ComputeCore(peak_flop_per_s=1e9), memory=lab.Memory(bandwidth_bytes_per_s=1e9))
    stream, kernel = rooflab.streams.sequential(4096), lab.StreamingKernel(nbytes=1e6)

    measured = rooflab.machine(EXAMPLES / "zen4-guest.toml")
    nodes = [FleetNode(name=f"n{at}", kind=measured.name, machine=measured) for at in range(6)]

    def report():
        return rooflab.op("relu", 4096, machine="h200")

    return {
        "Machine": lambda: rooflab.machine("a10"),
        "Report": report,
        "Variants": lambda: rooflab.variants(report(), ["h200", "l4"]),
        "LoopReport": lambda: rooflab.loop(triad, *arrays, levels=LEVELS, timed=False),
        "TileSweep": lambda: rooflab.sweep_tiles(blocked, {"t": (4, 8)}, arrays[0], levels=LEVELS),
        "Simulation": lambda: rooflab.simulate(stream, levels=LEVELS),
        "MissCurve": lambda: rooflab.miss_curve(stream),
        "CoreSimulation": lambda: rooflab.simulate_cores(rooflab.core_streams.counters(2, 10), levels=LEVELS),
        "Transfer": lambda: rooflab.transfer("1 GB", ["network"], rates={"network": "1 GB/s"}),
        "Calibration": lambda: rooflab.calibrate(times, "epyc-7763"),
        "Sweep": lambda: lab.sweep(kernel, system, "intensity", (0.5, 1.0, 2.0)),
        "Profile": lambda: rooflab.load(EXAMPLES / "gpt2-h200-trace.json.gz"),
        "Comparison": lambda: rooflab.compare(report(), rooflab.op("relu", 8192, machine="h200")),
        "Profiles": lambda: rooflab.load(EXAMPLES / "gpt2-h200-trace.json.gz", EXAMPLES / "zen4-guest.toml"),
        "Checkup": lambda: rooflab.doctor(quick=True),
        "Fleet": lambda: judged(nodes, "a test", "2026-01-01T00:00:00+00:00"),
        "Serving": lambda: rooflab.serve("llama-3.1-8b", "h100-sxm", rate=4.0, requests=50, osl=64),
        "ServingPlan": lambda: rooflab.serve_plan(
            "llama-3.1-8b", "h100-sxm", tpot="20ms", gpus=1, precision=["bf16"]
        ),
        "Hotspots": lambda: Hotspots(
            command=("a", "b"),
            usage=Usage(wall_s=2.0, user_s=1.5, system_s=0.2),
            exit_code=0,
            samples=3,
            hz=100,
            functions=(Spot(kind="function", name="f", file="a.py", first_line=1, last_line=9, samples=3, own=2),),
        ),
        "Run": lambda: Run(command=("a", "b"), usage=(Usage(wall_s=2.0, user_s=1.5, system_s=0.2),), exit_code=0),
        "TimedCall": lambda: TimedCall(
            name="relu",
            device="CPU",
            warm=CallTimes(caches="warm", median_s=2e-6, best_s=1e-6, calls=30, blocks_s=(2e-6, 3e-6, 1e-6)),
            first_s=1e-3,
            warm_up_calls=10,
            warm_up_s=0.1,
            surroundings=Surroundings(cpus=2),
            report=report(),
        ),
    }


@pytest.fixture(scope="module")
def result(makers):
    """A function that gives the one result of a type, made when it is first asked for."""
    return functools.cache(lambda kind: makers[kind]())


def test_every_type_of_result_is_here_and_has_a_room(makers):
    assert set(makers) == set(RESULTS) == set(views.ROOMS)
    for kind in RESULTS:
        assert issubclass(getattr(importlib.import_module(RESULTS[kind]), kind), Result)
        assert {".json", ".html"} <= set(views.room(kind).WRITERS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_result_is_read_back_equal(result, tmp_path, kind):
    path = tmp_path / "result.json"
    result(kind).save(path)
    raw = json.loads(path.read_text(encoding="utf-8"))
    assert (raw["type"], raw["schema"]) == (kind, 1)
    assert rooflab.load(path) == result(kind)
    assert type(result(kind)).from_dict(raw) == result(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_newer_schema_says_so_whatever_else_is_in_it(result, kind):
    raw = {**result(kind).to_dict(), "schema": 99, "a_field_of_the_future": 1}
    with pytest.raises(RooflabError, match=r"^schema 99 is newer than this rooflab reads \(1\); update rooflab$"):
        type(result(kind)).from_dict(raw)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_such_result_is_refused_by_its_name(result, kind):
    cls = type(result(kind))
    what = cls.WHAT
    with pytest.raises(RooflabError, match=rf"^not {what}: expected an object, got list"):
        cls.from_dict([])
    with pytest.raises(RooflabError, match=rf"^not {what}: its type is 'Other', expected '{kind}'"):
        cls.from_dict({**result(kind).to_dict(), "type": "Other"})
    with pytest.raises(RooflabError, match=rf"^not {what}: .*colour"):
        cls.from_dict({**result(kind).to_dict(), "colour": "red"})


@pytest.mark.parametrize("kind", KINDS)
def test_a_repr_is_one_short_line(result, kind):
    text = repr(result(kind))
    assert text == str(result(kind))
    assert text.startswith(f"<{kind} ")
    assert len(text) < 300
    assert "\n" not in text


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_result_is_shown_and_is_a_notebooks_cell(result, capsys, kind):
    result(kind).show()
    text = capsys.readouterr().out
    assert len(text.splitlines()) > 3
    file = io.StringIO()
    views.show(result(kind), file)
    assert file.getvalue() == text
    cell = result(kind)._repr_html_()
    assert cell.startswith("<iframe ")
    assert "&lt;!doctype html&gt;" in cell


@pytest.mark.parametrize("kind", SUFFIXES)
def test_the_help_of_a_command_names_the_formats_of_its_result(kind):
    named = SUFFIXES[kind].replace(" of one core", "").replace(" or ", ", ").replace("; ", ", ")
    assert set(named.split(", ")) == set(views.room(kind).WRITERS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("{}", 'expected an object with a "type"'),
        ("[]", "no profile that rooflab reads: it begins with b'[]'"),
        ('{"type": "Machin"}', "unknown type of result 'Machin'; did you mean Machine"),
        ('{"type": "Transfer"}', "not a transfer: Object missing required field"),
    ],
)
def test_a_file_that_is_no_result_is_one_clear_line(tmp_path, content, message):
    path = tmp_path / "some.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(FileError) as caught:
        rooflab.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_stream_is_one_clear_line():
    with pytest.raises(
        RooflabError, match=r"^simulate takes one of rooflab.streams, a path or a function, got int$"
    ):
        rooflab.simulate(3)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileError, match=r"none\.json: no such file"):
        rooflab.load(tmp_path / "none.json")


def test_a_machine_is_loaded_from_toml_too(result, tmp_path):
    path = tmp_path / "m.toml"
    result("Machine").save(path)
    assert rooflab.load(path) == result("Machine")


def test_a_machine_that_contradicts_itself_is_refused_by_load_as_by_machine(makers, tmp_path):
    raw = makers["Machine"]().to_dict()
    (memory,) = [level for level in raw["levels"] if level["name"] == "DRAM"]
    memory["rates"][0]["value"] *= 2  # no longer data rate × bus
    path = tmp_path / "twice.json"
    path.write_text(json.dumps(raw), encoding="utf-8")
    for read in (rooflab.load, rooflab.machine):
        with pytest.raises(FileError, match=r"twice\.json: contradicts itself"):
            read(path)


def test_a_simulation_without_a_level_is_refused(result, tmp_path):
    raw = result("Simulation").to_dict()
    raw["levels"] = []
    path = tmp_path / "none.json"
    path.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(FileError, match="a simulation without a level"):
        rooflab.load(path)


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_of_it_is_written_and_none_is_empty(result, tmp_path, kind):
    suffixes = views.room(kind).WRITERS
    assert {".json", ".html", ".md"} <= set(suffixes)
    for suffix in suffixes:
        path = tmp_path / f"result{suffix}"
        written = views.write(result(kind), path)
        # There may be nothing to draw of one: that is said.
        assert written.paths or suffix in (".svg", ".png", ".pdf"), written.refused
        assert not written.paths or path.stat().st_size > 40


@pytest.mark.parametrize("kind", KINDS)
def test_markdown_is_a_heading_and_tables_that_hold_together(result, kind):
    text = views.room(kind).WRITERS[".md"](result(kind)).decode()
    assert text.startswith("### ")
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("| ---"):
            width = line.count("|")
            table = [
                lines[number - 1],
                *itertools.takewhile(lambda each: each.startswith("|"), lines[number + 1 :]),
            ]
            assert {re.sub(r"\\\\\|", "", each).count("|") for each in table} == {width}


# A calibration moves constants, a simulation of cores has counts of several sorts: neither is one list of rows.
ROWLESS = ("Calibration", "CoreSimulation")


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_the_same_as_csv_parquet_arrow_and_data_frames(result, tmp_path, kind):
    if kind in ROWLESS:
        with pytest.raises(RooflabError, match=f"^{kind}: has no rows; "):
            result(kind).to_arrow()
        return
    table = result(kind).to_arrow()
    result(kind).save(tmp_path / "rows.csv", tmp_path / "rows.parquet")
    with open(tmp_path / "rows.csv", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == table.column_names
    assert len(rows) == table.num_rows
    assert pyarrow.parquet.read_table(tmp_path / "rows.parquet").equals(table)
    for number, name in enumerate(header):
        for text, value in zip([row[number] for row in rows], table[name].to_pylist(), strict=True):
            # An unknown is empty there, and null here: never zero.
            if value is None:
                assert text == ""
            elif isinstance(value, (bool, str)):
                assert text == str(value)
            else:
                assert float(text) == value
    frame = result(kind).to_pandas()
    assert list(frame.columns) == header
    assert int(frame.isna().sum().sum()) == sum(table[name].null_count for name in header)
    assert result(kind).to_polars().shape == (table.num_rows, len(header))


def _schemas():
    spec = importlib.util.spec_from_file_location("schemas", EXAMPLES.parent / "docs" / "generate_json_schemas.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_schema_files_are_those_of_the_types():
    module = _schemas()
    written = {path.name: path.read_text(encoding="utf-8") for path in module.FOLDER.iterdir()}
    # Files of older versions stay.
    for name, schema in module.schemas().items():
        assert written.get(name) == module.text(schema), "run: python docs/generate_json_schemas.py"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_holds_to_its_schema(result, kind):
    import jsonschema

    schema = _schemas().schemas()[f"{kind.lower()}.v{type(result(kind)).NEWEST}.json"]
    raw = json.loads(msgspec.json.encode(result(kind).to_dict()))
    jsonschema.Draft202012Validator(schema).validate(raw)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate({**raw, "type": "Other"})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate({**raw, "colour": "red"})


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("Transfer", lambda raw: raw["feed"].update(device_samples_per_s=0), r"feed\.device_samples_per_s"),
        ("Machine", lambda raw: raw["peaks"][0].update(value=0), r"peaks\[0\]\.value"),
        ("Run", lambda raw: raw.update(usage=[]), r"usage"),
    ],
)
def test_numbers_that_are_divided_by_are_not_nought(makers, kind, change, said):
    made = rooflab.transfer("1 GB", ["HBM"], machine="h200", sample=1e5, device_samples_per_s=10.0)
    raw = (made if kind == "Transfer" else makers[kind]()).to_dict()
    change(raw)
    with pytest.raises(RooflabError, match=rf"{said}"):
        type(made if kind == "Transfer" else makers[kind]()).from_dict(raw)


@pytest.mark.parametrize("kind", ["Ladder", "Topology", "Years", "Graph"])
def test_the_data_of_a_picture_says_which_command_draws_it_again(kind):
    with pytest.raises(RooflabError, match=r"not a result; rooflab .* makes it again"):
        read_result({"type": kind, "schema": 1})
