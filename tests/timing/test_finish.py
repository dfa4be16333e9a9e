"""Late and lazy results: each kind named, made to happen where that can be done, refused where not."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import dataclasses
import itertools
import multiprocessing.pool
import threading
import warnings

import numpy as np
import pytest

from rooflab.errors import RooflabError
from rooflab.timing.finish import finish, leaves


def test_a_result_that_is_there_needs_nothing():
    for value in (None, 1.5, "text", np.ones(3), [np.ones(2), {"a": 1}], range(9)):
        assert finish(value, "f") is None


def test_generators_and_iterators_are_read_to_their_end():
    done = []

    def numbers():
        yield from range(5)
        done.append(True)

    found = finish(numbers(), "f")
    assert "generator" in found.says
    assert done == [True]
    found.wait(numbers())
    assert done == [True, True]
    read = []
    finish(map(read.append, [1, 2]), "f")
    assert read == [1, 2]


def test_an_iterator_without_end_is_refused_after_the_limit():
    with pytest.raises(RooflabError, match=r"^f returned a count that gave [\d,]+ items in 0\.01 s and no end"):
        finish(itertools.count(), "f", limit_s=0.01)


def test_a_coroutine_is_named_and_leaves_no_warning():
    async def main():
        return 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RooflabError, match=r"mod\.main returned a coroutine: nothing ran.*asyncio\.run\(main"):
            finish(main(), "mod.main")

    async def many():
        yield 1

    with pytest.raises(RooflabError, match="async generator"):
        finish(many(), "f")
    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(RooflabError, match="a future of asyncio"):
            finish(loop.create_future(), "f")
    finally:
        loop.close()


def test_futures_are_waited_for_in_lists_and_dataclasses_too():
    @dataclasses.dataclass
    class Both:
        one: object
        two: object

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        finished = threading.Event()
        found = finish(Both(1, [pool.submit(finished.set)]), "f")
        assert finished.is_set()
        again = threading.Event()
        found.wait(Both(1, [pool.submit(again.set)]))
        assert again.is_set()
    with multiprocessing.pool.ThreadPool(1) as workers:
        assert "is to come" in finish(workers.apply_async(int), "f").says


def test_only_so_many_leaves_are_looked_at():
    assert len(list(leaves(list(range(1000))))) == 64
    assert list(leaves({"a": (1, [2, {3}])})) == [1, 2, {3}]  # three deep, no further
    assert list(leaves(collections.OrderedDict(x=1))) == [1]


def test_jax_is_waited_for_alone_and_in_trees():
    jax = pytest.importorskip("jax")
    x = jax.numpy.ones((64, 64))
    found = finish(x @ x, "f")
    assert "block_until_ready" in found.says
    assert found.wait(x) is not None
    assert "block_until_ready" in finish({"a": [x, 1.0]}, "f").says
    with pytest.raises(RooflabError, match="ShapeDtypeStruct"):
        finish(jax.ShapeDtypeStruct((2,), "float32"), "f")


def test_a_polars_frame_is_collected():
    polars = pytest.importorskip("polars")
    ran = []
    frame = polars.LazyFrame({"a": [1, 2]}).map_batches(lambda one: ran.append(1) or one)
    found = finish(frame, "f")
    assert ran == [1]
    found.wait(frame)
    assert ran == [1, 1]


def test_a_dask_collection_is_computed():
    dask = pytest.importorskip("dask")
    ran = []
    value = dask.delayed(ran.append)(1)
    assert "Dask" in finish(value, "f").says
    assert ran == [1]


def test_tinygrad_is_realized():
    tinygrad = pytest.importorskip("tinygrad")
    value = tinygrad.Tensor([1.0, 2.0]) + 1
    found = finish(value, "f")
    assert "realize" in found.says
    assert value.uop.is_realized


def test_tensors_without_data_are_refused_and_with_data_need_nothing():
    torch = pytest.importorskip("torch")
    assert finish(torch.ones(2), "f") is None
    with pytest.raises(RooflabError, match="f returned a tensor on the meta device"):
        finish([torch.ones(2, device="meta")], "f")
    with torch._subclasses.FakeTensorMode(), pytest.raises(RooflabError, match="fake tensor"):
        finish(torch.ones(2), "f")
    future = torch.futures.Future()
    future.set_result(1)
    assert "future of PyTorch" in finish(future, "f").says


def test_plans_of_other_libraries_are_named(monkeypatch):
    plan = type("DuckDBPyRelation", (), {"__module__": "duckdb"})()
    with pytest.raises(
        RooflabError, match=r"DuckDBPyRelation of duckdb, a plan that was not run; end .* fetchall"
    ):
        finish(plan, "f")
