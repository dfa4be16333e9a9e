"""Tables of libraries' products and of TLBs: speeds of the fitted terms, dashes where nothing was seen."""

from __future__ import annotations

import io

import msgspec
import pytest

import rooflab
from rooflab.types.machine import Machine, Products, Source, Tlb
from rooflab.views.machine import libraries, page, terminal

MEASURED = Source("measured", "a test")


@pytest.fixture
def machine():
    alone = Products(
        library="numpy",
        routine="product",
        dtype="fp32",
        threads=1,
        terms={"multiply_add_s": 2e-11},
        error=0.07,
        blas="OpenBLAS <b>",
        kernels="Zen",
        environment={"OMP_NUM_THREADS": "1"},
        source=MEASURED,
    )
    return Machine(
        name="box",
        kind="cpu",
        source=MEASURED,
        products=(alone, msgspec.structs.replace(alone, routine="matrix × vector")),
        tlbs=(
            Tlb(page_bytes=4096, source=MEASURED, entries=(64, 1024), miss_s=(2e-9, 30e-9), held_pages=8192),
            Tlb(page_bytes=2**21, source=MEASURED, held_pages=64),
        ),
    )


def test_speeds_of_whole_products(machine):
    (row,) = libraries.products(machine).rows
    assert row[:3] == ("NumPy", "fp32", "1")
    assert set(row[3:-1]) == {"100 GFLOP/s"}  # 2 FLOP in 20 ps, whatever the size
    assert row[-1] == "7 %"
    assert "OpenBLAS <b>, kernels for Zen, OMP_NUM_THREADS=1." in libraries.products(machine).note


def test_reach_is_entries_times_pages(machine):
    first, second, huge = libraries.reach(machine).rows
    assert first == ("4 KiB", "1", "64", "256 KiB", "2.00 ns")
    assert second[2:] == ("1,024", "4 MiB", "30.0 ns")
    assert huge == ("2 MiB", "–", "> 64", "–", "–")


def test_both_stand_in_the_terminal_and_escaped_on_the_page(machine):
    out = io.StringIO()
    terminal.show(machine, out)
    assert "Products of matrices" in out.getvalue()
    assert "Translations of addresses" in out.getvalue()
    shown = page.html(machine)
    assert "OpenBLAS &lt;b&gt;" in shown
    assert "OpenBLAS <b>" not in shown


def test_a_machine_without_them_has_no_such_table():
    assert not any(table.rows for table in libraries.every(Machine(name="x", kind="cpu", source=MEASURED)))


@pytest.mark.parametrize("ending", ["json", "toml"])
def test_they_are_saved_and_read_back(machine, tmp_path, ending):
    zero = msgspec.structs.replace(
        machine.products[0], terms={"call_s": 0.0, "item_s": 1e-9}, error=0.0, tail="halves"
    )
    whole = msgspec.structs.replace(machine, products=(zero,))
    path = tmp_path / f"box.{ending}"
    whole.save(path)
    found = rooflab.machine(path)
    assert found.products == whole.products
    assert found.tlbs == whole.tlbs
