"""What is printed: all of it, readable at 80 columns, plain in a pipe."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
from rich.console import Console

from rooflab.machines import catalog
from rooflab.types.machine import Check
from rooflab.views.common import sheet
from rooflab.views.common.table import Table
from rooflab.views.machine import ladder as ladder_view
from rooflab.views.machine import tables, terminal, text_roofline


def printed(machine, width):
    out = Console(width=width, file=io.StringIO(), highlight=False, markup=False)
    for part in terminal.pages(machine, width):
        out.print(part)
    return out.file.getvalue()


def line_of(text, start):
    return next(line.split("  ") for line in text.splitlines() if line.startswith(start))


@pytest.mark.parametrize("width", [80, 100, 160])
def test_no_line_is_too_wide_and_no_cell_is_broken(measured, width):
    text = printed(measured, width)
    assert max(len(line) for line in text.splitlines()) <= width
    for whole in ("compute-bound", "5-point stencil", "57.3 GFLOP/s", "random read 4 KiB"):
        assert whole in text


def test_everything_measured_is_said(measured):
    text = printed(measured, 100)
    for said in (
        measured.name,
        "Zen 4, 2 cores, 3.60 GHz under load",
        "2 of 192 CPUs (cpuset), 8 GiB of memory (cgroup)",
        "L3: 11 MiB found where the system reports 32 MiB",
        "2 of 6 self-checks failed",
        "O_DIRECT on /tmp (ext4)",
        "52.0 ns",  # core to core
        "410 ns",  # a NumPy call
    ):
        assert said in text
    cells = [cell.strip() for cell in line_of(text, "DRAM  ") if cell.strip()]
    assert cells[:6] == ["DRAM", "–", "8 GiB", "108 ns", "25.0 GB/s", "38.0 GB/s"]
    # fp64 peak / DRAM: 163.18 / 38 = 4.29
    assert text.rstrip().splitlines()[-1].startswith("Ridge points: fp64 scalar 0.749, fp64 4.29, fp32 8.59")


@pytest.mark.parametrize("name", ["page cache", "files in memory"])
def test_what_stands_in_a_disks_place_says_so_and_is_no_roof(measured, name):
    *memories, disk = measured.levels
    cached = msgspec.structs.replace(measured, levels=(*memories, msgspec.structs.replace(disk, name=name)))
    text = printed(cached, 100)
    assert f"\n{name.capitalize()}\n" in text
    assert text.replace(name.capitalize(), "Disk") == printed(measured, 100)


def test_a_disk_that_was_not_measured_is_a_sentence(measured):
    levels, why = measured.levels[:-1], "disk not measured: /tmp has 20 MiB free, expected 128"
    without = msgspec.structs.replace(measured, levels=levels, environment={**measured.environment, "disk": why})
    assert "\nDisk not measured: /tmp has 20 MiB free, expected 128.\n" in printed(without, 100)


def test_points_say_which_roof_binds(measured):
    table = tables.points(measured)
    # 2e8/2.4e9 = 0.0833 FLOP/byte × 38 GB/s = 3.17 GFLOP/s, of which 2e8 / 0.0667 s = 3.00
    assert table.rows[0] == ("triad", "DRAM", "memory-bound", "DRAM", "0.0833", "3.00 GFLOP/s", "95 %")


def test_a_point_above_its_roof_is_neither_clipped_nor_left_without_a_word(measured):
    fast = msgspec.structs.replace(measured.points[0], time_s=0.04)  # 2.4e9 bytes / 0.04 s = 60 GB/s over 38
    table = tables.points(msgspec.structs.replace(measured, points=(fast, *measured.points[1:])))
    assert table.rows[0][-1] == "158 %"
    assert "Above the roof (triad): it was measured beside other work" in table.note
    assert "Above the roof" not in tables.points(measured).note


def test_share_of_theory_is_never_clipped(measured):
    peaks = tuple(
        msgspec.structs.replace(rate, value=rate.value * 1.1) if rate.basis == "attained" else rate
        for rate in measured.peaks
    )
    table = tables.peaks(msgspec.structs.replace(measured, peaks=peaks))
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["of theory"] == "109.5 %"  # 1.1 × 0.995


def test_unknown_is_a_dash_and_a_column_of_unknowns_is_left_out(accelerator):
    table = tables.levels(accelerator)
    assert table.columns == ("level", "capacity", "theory, all")
    assert table.rows == (("L2", "50 MiB", "–"), ("HBM", "80.0 GB", "3.35 TB/s"))


def test_what_a_reader_must_know_of_a_number_stands_under_its_table():
    system, hybrid, card = (
        printed(catalog.find(name), 120) for name in ("dgx-h100", "core-i9-14900k", "rtx-4090")
    )
    assert "HBM: capacity of one GPU, bandwidth of all eight together." in system
    assert "PCIe 5.0 x16: of one GPU." in system
    assert re.search(r"host memory .* 2 TB DDR5 +1$", system, re.M)
    assert "L2: of a P-core; four E-cores share 4 MiB." in hybrid
    assert "fp16 fma matrix, sum in fp16 " in card
    assert "fp16 fma matrix, sum in fp32: PyTorch and cuBLAS accumulate in fp32" in " ".join(card.split())


def test_an_incomplete_measurement_says_so(measured):
    text = printed(msgspec.structs.replace(measured, incomplete="interrupted"), 80)
    assert "Incomplete: interrupted." in text


def test_a_roof_below_a_further_one_is_not_shown_without_a_word(measured):
    slow = msgspec.structs.replace(measured.levels[2], rates=(measured.levels[3].rates[1],))  # DRAM's for L3
    machine = msgspec.structs.replace(measured, levels=(*measured.levels[:2], slow, *measured.levels[3:]))
    said = "Not faster than a level further away, so do not trust its roof: L3."
    assert said in tables.facts(machine)
    assert said not in tables.facts(measured)


def test_checks_that_all_hold_take_one_line(measured):
    checks = (Check(name="a", ok=True, message="fine"),)
    assert "All 1 self-checks hold." in printed(msgspec.structs.replace(measured, checks=checks), 80)


def test_a_pipe_gets_no_escape_codes(measured, monkeypatch):
    out = io.StringIO()
    terminal.show(measured, out)
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_locale_without_unicode_gets_the_same_lines_spelled_out(measured, encoding):
    plain, raw = io.StringIO(), io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding, newline="")
    terminal.show(measured, plain)
    terminal.show(measured, out)
    out.flush()
    text = raw.getvalue().decode("ascii")
    assert "?" not in text
    assert "DRAM" in text
    # The sketch apart, every sign is spelled with one sign.
    tables_of = [shown.partition("Memory\n")[2] for shown in (plain.getvalue(), text)]
    assert [len(line) for line in tables_of[0].splitlines()] == [len(line) for line in tables_of[1].splitlines()]


def test_no_color_is_heeded(measured, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    terminal.show(measured, out)
    assert "\x1b[1;31m" in out.getvalue()  # the failed checks' heading
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    terminal.show(measured, out)
    assert "\x1b[1;31m" not in out.getvalue()


def test_markup_in_a_name_is_text(measured):
    assert "[red]box[/red]" in printed(msgspec.structs.replace(measured, name="[red]box[/red]"), 80)


def test_the_catalogue_keeps_what_matters_when_narrow(accelerator, monkeypatch):
    out = io.StringIO()
    terminal.show_catalogue([("example", accelerator)], out)
    head, _, row = out.getvalue().splitlines()[:3]
    assert head.split() == ["machine", "kind", "year", "memory", "bandwidth", "fp64", "fp32", "16-bit"]
    assert row.split()[:5] == ["example", "gpu", "2022", "80.0", "GB"]
    monkeypatch.setattr("rooflab.views.common.console.PIPE_WIDTH", 80)
    out = io.StringIO()
    terminal.show_catalogue([("a-machine-with-a-long-name", accelerator)], out)
    assert out.getvalue().splitlines()[0].split() == ["machine", "memory", "bandwidth", "fp64", "16-bit"]


def test_a_systems_memory_in_the_catalogue_is_that_of_all_its_parts(accelerator):
    # The bandwidth beside it is of all of them too: 8 × 80 GB
    levels = tuple(
        msgspec.structs.replace(level, shared_by=1) if level.name == "HBM" else level
        for level in accelerator.levels
    )
    out = io.StringIO()
    terminal.show_catalogue(
        [("system", msgspec.structs.replace(accelerator, levels=levels, compute_units=8))], out
    )
    assert " 640 GB " in out.getvalue()


def test_the_ladder_is_printed(accelerator):
    from rooflab.machines import ladder

    out = io.StringIO()
    sheet.show(ladder_view.sheet_of(accelerator, ladder.ladder(accelerator)), out)
    hbm = next(line for line in out.getvalue().splitlines() if line.startswith("HBM"))
    assert "3.35 TB/s" in hbm
    assert "299 µs" in hbm  # 1e9 / 3.35e12 s


def test_fold_repeats_the_first_column():
    table = Table("t", ("name", "one", "two"), (("a", "1" * 10, "2" * 10),))
    first, second = terminal.fold(table, 20)
    assert (first.columns, second.columns) == (("name", "one"), ("name", "two"))
    assert terminal.fold(table, 40) == [table]


@pytest.mark.parametrize("unicode", [True, False])
def test_the_sketch_names_every_roof(measured, unicode):
    drawn = text_roofline.sketch(measured, 76, unicode=unicode)
    lines = drawn.splitlines()
    assert max(len(line) for line in lines) <= 76
    for name in ("L1 455 GB/s", "DRAM 38.0 GB/s", "fp64 (fma+add) 163 GFLOP/s", "triad", "FLOP/byte"):
        assert name in drawn
    assert drawn.isascii() is not unicode
    order = [
        next(i for i, line in enumerate(lines) if f"{name} " in line[:15]) for name in ("L1", "L2", "L3", "DRAM")
    ]
    assert order == sorted(order)


def test_no_room_no_sketch(measured):
    assert text_roofline.sketch(measured, 50) == ""


def test_what_the_environment_does_to_matmul_is_said_beside_it(measured):
    names = [point.name for point in measured.points]
    told = {**measured.environment, "OPENBLAS_CORETYPE": "Prescott", "blas": "OpenBLAS, kernels for Prescott"}
    point = msgspec.structs.replace(measured.points[0], name="matmul")
    with_matmul = msgspec.structs.replace(measured, points=(point,), environment=told)
    note = tables.points(with_matmul).note
    assert "matmul: OpenBLAS, kernels for Prescott." in note
    assert "OPENBLAS_CORETYPE=Prescott" in note
    assert "OPENBLAS" not in tables.points(measured).note, names


def test_latencies_carry_their_spread(measured):
    first, *others = measured.levels
    noisy = msgspec.structs.replace(first, latency_spread=0.37, latency_runs=9)
    table = tables.levels(msgspec.structs.replace(measured, levels=(noisy, *others)))
    assert table.rows[0][table.columns.index("its spread")] == "37 %"
    link = msgspec.structs.replace(measured.links[0], latency_s=4e-8, spread=0.61)
    table = tables.links(msgspec.structs.replace(measured, links=(link,)))
    assert table.rows[0][table.columns.index("its spread")] == "61 %"
