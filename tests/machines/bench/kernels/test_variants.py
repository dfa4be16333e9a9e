"""Ways to write a streaming loop: right results in each, no byte counted twice, the fastest chosen by trying."""

from __future__ import annotations

import pytest

from rooflab.machines.bench.experiments.bandwidth import (
    STREAM_ROWS,
    StreamCase,
    StreamForm,
    fastest_forms,
    forms_of,
    stream_trial,
)
from rooflab.machines.bench.experiments.verify import verify_stream
from rooflab.machines.bench.kernels.emit import stream_kernel
from rooflab.machines.bench.kernels.jit import compile_kernels, host_features
from rooflab.machines.bench.kernels.rows import READ, STORES
from rooflab.machines.bench.kernels.simd import Simd, host_simds
from rooflab.machines.bench.kernels.variants import PLAIN, Variant, variants
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.machines.bench.run.trials import Bench, Trial
from rooflab.units import KIB
from support.machines.workshop import Workshop

FORMS = [form for row in STREAM_ROWS for form in forms_of(row, host_simds(host_features())[:2])]
COPY = next(row for row in STORES if row.name == "copy")


@pytest.fixture(scope="module")
def shop(workshop: Workshop) -> Bench:
    kernels = compile_kernels([stream_kernel(form.symbol, form.row, form.simd, form.variant) for form in FORMS])
    bench = workshop.bench
    return Bench(bench.pinned, {**bench.kernels, **kernels}, bench.rng)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.symbol)
def test_every_variant_computes_what_numpy_does(shop: Bench, workshop: Workshop, form: StreamForm) -> None:
    verify_stream(shop, form, workshop.arena, workshop.cpus[0])


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.symbol)
def test_bytes_of_a_pass_are_the_working_set(shop: Bench, workshop: Workshop, form: StreamForm) -> None:
    cpu = workshop.cpus[0]
    arenas = ThreadArenas({cpu: workshop.arena})
    trial = stream_trial(shop, arenas, form, StreamCase(form.row, "core", 96 * KIB), (cpu,), 0.001)
    (job,) = trial.jobs
    places = form.variant.places
    touched = job.nbytes * places * len(form.row.expression.streams)
    step = shop.kernels[form.symbol].emitted.step_bytes * places * len(form.row.expression.streams)
    assert 96 * KIB - step <= touched <= 96 * KIB
    assert trial.per_pass == job.nbytes * places * form.row.expression.streamed_elements
    if places > 1:
        assert job.width >= job.nbytes  # no byte belongs to two places
        last = job.a + (places - 1) * job.width + job.nbytes
        assert last <= workshop.arena.address + workshop.arena.nbytes


def test_symbols_and_names_tell_variants_apart() -> None:
    assert len({form.symbol for form in FORMS}) == len(FORMS)
    assert len({(form.row, form.name) for form in FORMS}) == len(FORMS)
    assert Variant(unroll=2, grouped=True, prefetch_bytes=4096).name == (
        "unrolled ×2, loads first, prefetch 4 KiB ahead"
    )
    assert (PLAIN.name, PLAIN.symbol) == ("plain", "")


def test_registers_of_unknown_length_are_not_cut_into_places() -> None:
    tried = variants(READ, Simd("SVE", 512, 32, scalable=True))
    assert PLAIN in tried
    assert all(one.places == 1 and not one.prefetch_bytes for one in tried)


def test_loads_first_really_come_first() -> None:
    simd = Simd("AVX2", 256, 16)
    plain, grouped = (stream_kernel("k", COPY, simd, Variant(grouped=way)).loop.lines for way in (False, True))
    kinds = ["load" if "= load" in line else "store" for line in grouped if "load" in line or "store" in line]
    assert kinds == ["load"] * 8 + ["store"] * 8
    assert [line for line in plain if "store" in line] != grouped
    prefetched = stream_kernel("k", COPY, simd, Variant(prefetch_bytes=4096)).loop.lines
    # 8 registers of 32 bytes are 4 lines, of b alone: a line that is only written need not be there.
    assert sum("llvm.prefetch" in line for line in prefetched) == 4


class Slowed(Bench):
    """A bench on which a form takes the time that a table says, a little less each time it is asked."""

    rates: dict[str, float]
    asked: list[str]

    def _calibrated(self, trial: Trial) -> int:
        return 1

    def _sample(self, trial, passes, clocked, again=False):
        from rooflab.machines.bench.run.trials import Sample

        assert isinstance(trial.key, StreamForm)
        self.asked.append(trial.key.name)
        return Sample(self.rates[trial.key.name])


def test_the_fastest_is_found_and_the_hopeless_are_dropped(shop: Bench, workshop: Workshop) -> None:
    cpu = workshop.cpus[0]
    forms = [form for form in FORMS if form.row == READ][:5]
    slowed = Slowed(shop.pinned, shop.kernels, shop.rng)
    # By name, in the order given: the third is fastest, the last two far behind.
    slowed.rates = dict(zip([form.name for form in forms], (90.0, 95.0, 100.0, 60.0, 20.0), strict=True))
    slowed.asked = []
    arenas = ThreadArenas({cpu: workshop.arena})
    chosen = fastest_forms(slowed, arenas, forms, cpu, 16 * KIB, rounds=3, best=2)
    assert [form.name for form in chosen[READ]] == [forms[2].name, forms[1].name]
    counts = [slowed.asked.count(form.name) for form in forms]
    assert counts == [4, 4, 4, 1, 1]
