"""The terms of a product's time: what each is multiplied with, counted by hand."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from rooflab.machines import products
from rooflab.types.machine import Products, Source

SOURCE = Source("measured", "by hand")


def row(threads=1, **terms):
    return Products(library="numpy", routine="product", dtype="fp32", threads=threads, terms=terms, source=SOURCE)


def one(*shape, item_bytes=4):
    return products.shapes_of([shape], item_bytes)


def test_each_term_of_a_product_is_counted():
    x = one(3, 10, 7, 5)
    found = {name: float(each[0]) for name, each in products.terms("product", x, (8, 4), "halves", (0, 0)).items()}
    assert found == {
        "call_s": 1,
        "item_s": 3,
        "multiply_add_s": 3 * 10 * 7 * 5,
        "left_s": 3 * 10 * 5,
        "right_s": 3 * 5 * 7,
        "result_s": 3 * 10 * 7,
        "row_s": 3 * 10,
        "column_s": 3 * 7,
        "edge_rows_s": 3 * 5 * 7 * 1,  # 10 rows: a tile of 8, and one pass of 2
        "edge_columns_s": 3 * 5 * 10 * 2,  # 7 columns: a tile of 4, and passes of 2 and 1
        "far_byte_s": 0,
        "memory_byte_s": 0,
    }


def test_a_masked_tail_costs_what_is_missing_to_a_whole_tile():
    found = products.terms("product", one(1, 10, 7, 5), (8, 4), "masked", (0, 0))
    assert float(found["edge_rows_s"][0]) == 5 * 7 * 6  # 10 of 16 rows
    assert float(found["edge_columns_s"][0]) == 5 * 10 * 1  # 7 of 8 columns


def test_bytes_beyond_a_cache_count_between_six_and_fourteen_tenths_of_it():
    # 4 · (100·100 · 3) = 120 kB
    for cache, share in ((200e3, 0.0), (120e3, 0.5), (80e3, 1.0)):
        found = products.terms("product", one(1, 100, 100, 100), (1, 1), "masked", (cache, 0.0))
        assert float(found["far_byte_s"][0]) == pytest.approx(120e3 * share)


def test_a_matrix_and_a_vector_stream_the_matrix():
    matrix = products.terms("matrix × vector", one(1, 30, 1, 20), (1, 1), "masked", (0, 0))
    vector = products.terms("vector × matrix", one(1, 1, 30, 20), (1, 1), "masked", (0, 0))
    assert [float(matrix[name][0]) for name in ("row_s", "column_s", "element_s")] == [30, 20, 600]
    assert [float(vector[name][0]) for name in ("row_s", "column_s", "element_s")] == [20, 30, 600]


@pytest.mark.parametrize(
    ("library", "shape", "wanted"),
    [
        ("numpy", (1, 8, 8), "product"),
        ("numpy", (5, 8, 8), "product"),
        ("torch", (5, 8, 8), "batched product"),
        ("torch", (1, 8, 1), "matrix × vector"),
        ("numpy", (1, 1, 8), "vector × matrix"),
        ("numpy", (1, 1, 1), "matrix × vector"),
    ],
)
def test_routines(library, shape, wanted):
    assert products.routine_of(library, *shape) == wanted


def test_below_the_librarys_limit_one_thread_works():
    rows = {1: row(call_s=1.0), 2: msgspec.structs.replace(row(2, call_s=0.25), team_from=100.0)}
    small, large = one(1, 4, 5, 5), one(1, 4, 5, 6)  # 100 and 120 multiply-adds
    assert products.library_seconds(rows, 2, small)[0] == 1.0
    assert products.library_seconds(rows, 2, large)[0] == 0.25
    assert products.library_seconds(rows, 1, large)[0] == 1.0


def test_between_two_numbers_of_threads_shared_work_falls_as_one_over_them():
    rows = {1: row(1, multiply_add_s=8.0), 8: row(8, multiply_add_s=1.0)}
    assert products.between(rows, 4).terms["multiply_add_s"] == pytest.approx(2.0)  # 8 / 4
    assert products.between(rows, 16).terms["multiply_add_s"] == 1.0  # no more than measured is known
    assert np.isclose(products.library_seconds(rows, 4, one(1, 1, 1, 3))[0], 6.0)
