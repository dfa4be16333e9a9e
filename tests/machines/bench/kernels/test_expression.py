"""What follows from a row's expression, against plain loops; and what is refused."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.errors import RooflabError
from rooflab.machines.bench.kernels.expression import FOLDS, Expression, Offset, Window, offset_of
from rooflab.machines.bench.kernels.rows import PEAKS, READ, STENCIL, STORES, StreamRow


@pytest.mark.parametrize(
    ("text", "reads", "writes", "streamed", "flop"),
    [
        ("x ^= a[i]", ("a",), (), 1, 0),  # 1 read; a bitwise fold is no FLOP
        ("x += a[i]", ("a",), (), 1, 1),  # 1 read; the fold is 1 addition
        ("x += a[i] * b[i]", ("a", "b"), (), 2, 2),  # 2 reads; 1 multiplication, 1 addition
        ("a[i] = s", (), ("a",), 1, 0),  # 1 write
        ("a[i] = b[i]", ("b",), ("a",), 2, 0),  # 1 read + 1 write
        ("a[i] = b[i] + s * c[i]", ("b", "c"), ("a",), 3, 2),  # 2 reads + 1 write; 1 add, 1 multiply
        ("a[i] = a[i] + s", ("a",), ("a",), 2, 1),  # a is read and written: 2, though 1 array
        ("a[i] = b[i] * b[i]", ("b",), ("a",), 2, 1),  # b crosses once however often it is named
        # 5 loads of 1 array, 1 write; 4 additions + 1 multiplication, index arithmetic is no FLOP
        ("a[i] = s * (b[i] + b[i-1] + b[i+1] + b[i-w] + b[i+w])", ("b",), ("a",), 2, 5),
        ("x = s * t + x", (), (), 0, 2),
        ("x = x + s", (), (), 0, 1),
        ("x = dot(x, p, q)", (), (), 0, 2),  # per product
    ],
)
def test_streams_bytes_and_operations_follow_from_the_expression(
    text: str, reads: tuple[str, ...], writes: tuple[str, ...], streamed: int, flop: int
) -> None:
    expression = Expression(text)
    assert expression.reads == reads
    assert expression.writes == writes
    assert expression.streams == tuple(dict.fromkeys(reads + writes))
    assert expression.streamed_elements == streamed
    assert expression.flop == flop


@pytest.mark.parametrize(
    ("row", "nbytes"),
    # fp64 and int64: 8 bytes an element and stream, write-allocate not counted
    [(READ, 8), *zip(STORES, (8, 16, 24) * 2, strict=True), (STENCIL, 16)],
    ids=lambda value: value.name if isinstance(value, StreamRow) else str(value),
)
def test_bytes_of_the_rows(row: StreamRow, nbytes: int) -> None:
    assert row.bytes_per_element == nbytes


def test_row_names_are_their_own() -> None:
    names = [row.name for row in (READ, *STORES, STENCIL)] + [row.name for row in PEAKS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("index", "offset"),
    [
        ("i", Offset()),
        ("i+3", Offset(elements=3)),
        ("i-1", Offset(elements=-1)),
        ("i+0", Offset()),
        ("i+w", Offset(rows=1)),
        ("i-w", Offset(rows=-1)),
    ],
)
def test_offsets_in_a_stream_are_found(index: str, offset: Offset) -> None:
    (node,) = [one for one in ast.walk(ast.parse(f"b[{index}]")) if isinstance(one, ast.Subscript)]
    assert offset_of(node) == offset


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected one assignment"),
        ("a[i]", "expected one assignment"),
        ("x = (", "expected one assignment"),
        ("a[i] = s; b[i] = s", "expected one assignment"),
        ("a[i]: float = s", "expected one assignment"),
        ("x = y = a[i]", "got 2 targets, expected one"),
        ("x -= a[i]", "a fold is"),  # folding lanes with − is no reduction
        ("a[i] += b[i]", "a fold is"),  # would be folded into a register, and a's read not counted
        ("a[i+1] = b[i]", "expected an offset of 0"),  # would be written to a[i]
        ("a[i], b[i] = s", "expected a[i] or a register"),
        ("x.y = s", "expected a[i] or a register"),
        ("a[i] = b[i] / c[i]", "is not +, − or ×"),  # would count as no FLOP
        ("a[i] = -b[i]", "is not +, − or ×"),
        ("a[i] = 2 * b[i]", "'2' is not +, − or ×"),
        ("a[i] = sqrt(b[i])", "'sqrt(b[i])' is not +"),
        ("x = dot(x, p)", "is not +, − or ×"),
        ("a[j] = b[i]", "index 'j' is not i"),
        ("a[i] = b[2*i]", "index '2 * i' is not i"),
        ("a[i] = b[i*2]", "is not i, i ± number or i ± w"),
        ("a[i] = b[i+1.5]", "is not i, i ± number or i ± w"),
        ("a[i] = b[c[i]]", "is not i, i ± number or i ± w"),
        ("a[i] = b.c[i]", "'b.c[i]' is not array[i ± offset]"),
    ],
)
def test_what_is_not_a_row_is_refused(text: str, said: str) -> None:
    with pytest.raises(RooflabError, match="kernel row") as caught:
        _ = Expression(text).statement
    assert said in str(caught.value)


def _terms() -> st.SearchStrategy[str]:
    index = st.sampled_from(["i", "i-1", "i+1", "i+2", "i-w", "i+w"])
    leaf = st.one_of(
        st.sampled_from(["s", "t"]),
        st.builds(lambda name, at: f"{name}[{at}]", st.sampled_from("bc"), index),
    )
    return st.recursive(
        leaf,
        lambda inner: st.builds(lambda p, op, q: f"({p} {op} {q})", inner, st.sampled_from("+-*"), inner),
        max_leaves=6,
    )


@given(text=_terms(), seed=st.integers(0, 1000), width=st.integers(2, 5))
def test_evaluation_against_a_plain_loop(text: str, seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    data = {name: rng.integers(-3, 4, 40).astype(np.float64) for name in "bc"}
    start, count = 8, 20
    windows = {name: Window(array, start, count) for name, array in data.items()}
    expression = Expression(f"a[i] = {text}")
    got = expression.evaluate({**windows, "s": 2.0, "t": -1.0, "i": 0, "w": width})
    code = compile(text, "<plain>", "eval")
    plain = [eval(code, {**data, "s": 2.0, "t": -1.0, "i": i, "w": width}) for i in range(start, start + count)]
    assert np.array_equal(np.broadcast_to(got, (count,)), plain)
    assert expression.flop == sum(text.count(f" {sign} ") for sign in "+-*")
    assert expression.reads == tuple(dict.fromkeys(char for char in text if char in "bc"))


@given(values=st.lists(st.integers(-50, 50), min_size=1, max_size=30))
def test_folds_against_a_plain_loop(values: list[int]) -> None:
    xor = total = 0
    for value in values:
        xor, total = xor ^ value, total + value
    assert FOLDS[ast.BitXor](np.array(values)) == xor
    assert FOLDS[ast.Add](np.array(values)) == total
