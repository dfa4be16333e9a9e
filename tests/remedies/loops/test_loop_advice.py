"""Advice for loops: what is found, that it was simulated, and that nothing is found where nothing helps."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

import rooflab
from rooflab.loops import examine, understanding
from rooflab.machines import cache_levels
from rooflab.model.loop import placement, waiting
from rooflab.remedies.loops import advise as advising
from rooflab.remedies.loops import case, conditions, rules, trying
from rooflab.types.loop import Timed
from rooflab.types.machine import Curve, Source
from rooflab.types.measured import Tlb
from rooflab.types.simulation import Cache


@pytest.fixture(scope="module")
def small():
    """Three levels so small that tiny loops overflow them."""
    return (Cache(1024, 8, 64, name="L1"), Cache(2048, 8, 64, name="L2"), Cache(4096, 8, 64, name="L3"))


@pytest.fixture(scope="module")
def guest(root):
    return rooflab.machine(root / "examples" / "zen4-guest.toml")


def column_sums(a, s):
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            s[j] += a[i, j]


def row_sums(a, s):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            s[j] += a[i, j]


def triad(a, b, c, s):
    for i in range(a.size):
        a[i] = b[i] + s * c[i]


def prefix(a):
    for i in range(1, a.size):
        a[i] = a[i] + a[i - 1]


def one_field(p, s):
    for i in range(p.shape[0]):
        s[i] = p[i, 0] * 2.0


def advised(fn, args, machine, caches=None):
    """The advice on `fn`, not run; and its report."""
    loop = understanding.understand(fn, args)
    chosen = cache_levels.choose(machine, caches)
    report = placement.place_on(examine.report(loop, chosen, time=False, code=True), machine)
    return advising.advise(report, loop, chosen, here=False, patience_s=120.0), report


def test_what_was_not_tried_in_time_is_named_and_what_takes_none_is_asked(guest):
    loop = understanding.understand(column_sums, (np.ones((300, 300)), np.zeros(300)))
    chosen = cache_levels.choose(guest, None)
    report = placement.place_on(examine.report(loop, chosen, time=False, code=True), guest)
    advice = advising.advise(report, loop, chosen, here=False, patience_s=0.0)
    left = {each.partition(":")[0] for each in advice.unasked if "not tried, as the 0 s" in each}
    assert {"interchange", "fp32"} <= left
    assert all("--advice-time" in each for each in advice.unasked if "not tried" in each)
    assert "threads" not in left
    counted = {rule.name for rule in rules.RULES if rule.counted}
    assert left <= counted
    assert not {each.rule for each in (*advice.each, *advice.trades)} & counted


def test_what_is_not_counted_comes_first_then_what_changes_no_result_and_fits_the_bound(guest):
    loop = understanding.understand(column_sums, (np.ones((300, 300)), np.zeros(300)))
    chosen = cache_levels.choose(guest, None)
    report = placement.place_on(examine.report(loop, chosen, time=False, code=True), guest)
    held = advising._case(report, loop, chosen, guest, None)
    asked = [rule for rule, _ in trying._in_order(held)]
    assert [each.counted for each in asked] == sorted(each.counted for each in asked)
    counted = [each.name for each in asked if each.counted]
    assert held.report.bound == "compute-bound"
    assert counted == ["interchange", "accumulators", "fp32"]


def test_the_report_is_told_before_its_advice(guest):
    told = []
    args = (np.ones((300, 300)), np.zeros(300))
    report = rooflab.loop(column_sums, *args, machine=guest, timed=False, advice_s=0.0, told=told.append)
    assert [each.advice for each in told] == [None]
    assert report.advice is not None
    assert msgspec.structs.replace(report, advice=None) == told[0]
    rooflab.loop(column_sums, *args, machine=guest, timed=False, advise=False, told=told.append)
    assert len(told) == 1


def test_less_than_no_time_for_advice_is_refused(guest):
    with pytest.raises(rooflab.errors.RooflabError, match="advice_s is -1, expected 0 or more seconds"):
        rooflab.loop(triad, *[np.ones(9)] * 3, 2.0, machine=guest, advice_s=-1)


@pytest.mark.slow
def test_a_column_by_column_sum_is_told_to_go_along_rows(guest):
    rng = np.random.default_rng(1)
    advice, report = advised(column_sums, (rng.random((700, 700)), np.zeros(700)), guest)
    best = advice.each[0]
    assert best.rule == "interchange"
    assert "for i in range(a.shape[0]):\n        for j in range(a.shape[1]):" in best.code
    assert best.before_s == report.prediction.time_s
    # The time is that of the exchanged loop, predicted as if it had been written so.
    exchanged = understanding.understand(row_sums, (rng.random((700, 700)), np.zeros(700)))
    caches = cache_levels.choose(guest, None)
    as_written = placement.place_on(examine.report(exchanged, caches, time=False, code=True), guest)
    assert best.after_s == pytest.approx(as_written.prediction.time_s, rel=1e-9)
    assert best.gain_low_s < best.gain_s < best.gain_high_s < best.before_s
    # Tiles mend the same: they are named, not advised beside it.
    assert "tile" not in [each.rule for each in advice.each if each.rule not in advice.together]


@pytest.mark.slow
def test_a_loop_along_rows_is_told_nothing_of_its_order(guest):
    advice, _ = advised(row_sums, (np.ones((700, 700)), np.zeros(700)), guest)
    rules_found = {each.rule for each in advice.each}
    assert not rules_found & {"interchange", "tile", "pad-rows", "by-columns", "structure-of-arrays", "fuse-loops"}
    assert any(each.startswith("threads: only an inner loop may be shared (over j)") for each in advice.unasked)


@pytest.mark.slow
def test_fields_of_records_are_told_to_lie_side_by_side(guest):
    advice, _ = advised(one_field, (np.ones((400_000, 8)), np.zeros(400_000)), guest)
    assert advice.each[0].rule == "structure-of-arrays"
    assert advice.each[0].price == "nothing"


def test_stores_past_the_caches_cross_to_the_memory_once(small):
    # 2,000 elements, 16,000 B an array = 250 lines of 64 B; caches of 1 KiB to 4 KiB hold none of it.
    n, line = 2000, 64
    loop = understanding.understand(triad, (np.zeros(n), np.ones(n), np.ones(n), 2.0))
    report = examine.report(loop, cache_levels.choose(None, small), time=False)
    last = report.warm.levels[-1]
    assert (last.read_bytes, last.write_bytes) == (3 * 250 * line, 250 * line)  # a is read before it is written
    past = case.past_caches(report, ("a",)).warm.levels
    assert (past[-1].read_bytes, past[-1].write_bytes) == (2 * 250 * line, 250 * line)
    assert [level.write_bytes for level in past[:-1]] == [0, 0]
    assert conditions.written_once(report) == ("a",)


def test_what_is_read_back_is_not_written_past_the_caches(small):
    loop = understanding.understand(prefix, (np.ones(2000),))
    report = examine.report(loop, cache_levels.choose(None, small), time=False)
    assert conditions.written_once(report) == ()


def test_a_count_that_was_stopped_gives_no_advice(guest):
    loop = understanding.understand(row_sums, (np.ones((400, 400)), np.zeros(400)))
    caches = cache_levels.choose(guest, None)
    report = examine.report(loop, caches, time=False)
    stopped = msgspec.structs.replace(placement.place_on(report, guest), complete=False)
    advice = advising.advise(stopped, loop, caches)
    assert advice.each == ()
    assert advice.unasked[0].startswith("all: its count was stopped")


@pytest.mark.slow
def test_a_change_that_a_run_disproves_is_no_advice(guest, monkeypatch):
    args = (np.ones((700, 700)), np.zeros(700))
    report = rooflab.loop(column_sums, *args, machine=guest, advise=False)
    loop, caches = understanding.understand(column_sums, args), cache_levels.choose(guest, None)
    monkeypatch.setattr(trying, "run", lambda change, state, case: trying.Runs(1e-3, 1.2e-3))
    advice = advising.advise(report, loop, caches, here=True)
    assert [each.rule for each in (*advice.each, *advice.trades) if each.rule != "threads"] == []
    assert any("run here it takes 1.20 ms instead of 1.00 ms" in each for each in advice.unasked)


def timed_here(guest, n):
    """What advice is asked of: sums of n columns of n, which took 1 ms here."""
    loop = understanding.understand(column_sums, (np.ones((n, n)), np.zeros(n)))
    chosen = cache_levels.choose(guest, None)
    report = placement.place_on(examine.report(loop, chosen, time=False, code=True), guest)
    ran = Timed(threads=1, cache="warm", best_s=1e-3, median_s=1e-3, spread=0.0, runs=9)
    return msgspec.structs.replace(report, runs=(ran,)), loop, chosen


def counted_of(monkeypatch, timed, ratio):
    """(advice, texts of the changes that were counted), where a run takes `ratio(change)` of the time before."""
    ran, counted = {}, []

    def run(change, state, case):
        ran[id(state)] = change.text
        return trying.Runs(1e-3, ratio(change) * 1e-3) if change.runnable else None

    def examined(state, case):
        counted.extend([ran[id(state)]] if id(state) in ran else [])
        return advising.examined(state, case)

    monkeypatch.setattr(trying, "run", run)
    monkeypatch.setattr(trying, "examined", examined)
    return advising.advise(*timed, here=True, patience_s=120.0), counted


def test_what_a_run_shows_to_save_nothing_is_not_counted(monkeypatch, guest):
    advice, counted = counted_of(monkeypatch, timed_here(guest, 300), lambda change: 1.2)
    assert counted == []
    assert {each.rule for each in (*advice.each, *advice.trades)} <= {"threads", "non-temporal"}
    said = [each for each in advice.unasked if "run here it takes 1.20 ms instead of 1.00 ms" in each]
    assert "interchange" in {each.partition(":")[0] for each in said}


def test_of_changes_that_mend_the_same_those_that_run_slower_are_not_counted(monkeypatch, guest):
    shares = {"interchange": 0.2, "tile": 0.5, "by-columns": 0.4}
    advice, counted = counted_of(monkeypatch, timed_here(guest, 700), lambda change: shares.get(change.rule, 0.3))
    assert advice.each[0].rule == "interchange"
    assert sum(each.startswith("Exchange the loops") for each in counted) == 1
    assert not any(each.startswith(("Cut the loops", "Store ")) for each in counted)
    assert any(each.startswith("tile: ") and "what mends the same 20 % of that" in each for each in advice.unasked)


def test_what_may_as_well_save_nothing_is_not_advice(guest, monkeypatch):
    args = (np.ones((200, 200)), np.zeros(200))
    assert advised(column_sums, args, guest)[0].each
    monkeypatch.setattr(trying, "ends", lambda before, after: (0.5, 1.0))
    advice, _ = advised(column_sums, args, guest)
    assert advice.each == advice.trades == ()
    assert any("or nothing, by how much of it is hidden" in each for each in advice.unasked)


@pytest.mark.slow
def test_the_public_function_gives_it_and_a_file_keeps_it(guest, tmp_path):
    args = (np.ones((300, 300)), np.zeros(300))
    report = rooflab.loop(column_sums, *args, machine=guest, timed=False, advice_s=120.0)
    assert report.advice.each[0].rule == "interchange"
    report.save(tmp_path / "loop.json")
    assert rooflab.load(tmp_path / "loop.json") == report
    assert rooflab.loop(column_sums, *args, machine=guest, timed=False, advise=False).advice is None


def test_a_changed_loop_that_was_counted_from_empty_caches_alone_is_not_compared(guest, monkeypatch):
    loop = understanding.understand(row_sums, (np.ones((40, 40)), np.zeros(40)))
    caches = cache_levels.choose(guest, None)
    report = placement.place_on(examine.report(loop, caches, time=False), guest)
    assert report.warm is not None
    held = case.Case(report, case.State(loop), caches, guest, 5.0, [])
    cold = msgspec.structs.replace(report, warm=None)
    monkeypatch.setattr(case.again, "report", lambda *args, **how: cold)
    assert case.examined(held.state, held) == "counting the changed loop twice takes more than 5 s"


def picked_up(a, idx, s):
    for i in range(idx.size):
        s[i] = a[idx[i]]


def paged(guest, huge, steps=True):
    """A machine where a load in more than 64 pages waits 100 ns, in huge ones not at all."""
    waits = {"4 KiB pages": (0.0, 1e-7, 1e-7)} | ({"4 KiB steps in 2 MiB pages": (0.0, 0.0, 0.0)} if steps else {})
    source = Source("measured", "a test")
    curves = tuple(
        Curve(
            name=f"translation wait, {name}",
            x_unit="page",
            y_unit="s",
            scope="core",
            x=(64.0, 128.0, 4096.0),
            best=each,
            median=each,
            source=source,
        )
        for name, each in waits.items()
    )
    tlbs = (Tlb(page_bytes=4096, source=source, entries=(32, 64), miss_s=(0.0, 1e-7)),)
    environment = {**guest.environment, "huge_pages": huge}
    return msgspec.structs.replace(guest, curves=curves, tlbs=tlbs, environment=environment)


@pytest.mark.slow
def test_huge_pages_are_told_with_what_they_save_and_only_where_they_do(guest):
    # 8 MiB: 2,048 pages
    args = (np.ones(1 << 20), np.random.default_rng(0).integers(0, 1 << 20, 1 << 12), np.zeros(1 << 12))
    _, report = advised(picked_up, args, never := paged(guest, "never"))
    advice = advised(picked_up, args, never)[0]
    one = next(each for each in advice.each if each.rule == "huge-pages")
    saved = waiting.walks_s(report, never)
    assert 0 < saved < report.prediction.overlapped_s < report.prediction.time_s < report.prediction.serial_s
    assert one.before_s - one.after_s == pytest.approx(saved, rel=0.05)
    # granted already; not measured; held by the buffers
    assert "huge-pages" not in [each.rule for each in advised(picked_up, args, paged(guest, "madvise"))[0].each]
    unknown = advised(picked_up, args, paged(guest, "never", steps=False))[0]
    assert any("what larger pages save was not measured here" in each for each in unknown.unasked)
    few = (np.ones(1 << 14), args[1] % (1 << 14), args[2])
    held = advised(picked_up, few, never)[0]
    assert not any("huge-pages" in str(each) for each in (*held.each, *held.unasked))


def picked(a, b, s):
    t = 0.0
    for i in range(a.size):
        if a[i] > 0.5:
            t += a[i] * b[i]  # b[i] may not be loaded for nothing: the compiler leaves the branch
    s[0] = t


@pytest.mark.slow
def test_a_branch_that_a_coin_decides_is_told_to_be_a_select(guest):
    loop = understanding.understand(picked, (*np.random.default_rng(0).random((2, 400_000)), np.zeros(1)))
    chosen = cache_levels.choose(guest, None)
    report = placement.place_on(examine.report(loop, chosen, time=False, code=True, profile=True), guest)
    # half of 400,000 branches fall by chance, more than are learnt by heart: a predictor misses about as many of
    # them as it guesses right
    assert 160_000 < sum(each.missed for each in report.core_loops) < 240_000
    advice = advising.advise(report, loop, chosen, here=False)
    best = next(each for each in advice.each if each.rule == "select")
    assert "if a[i] > 0.5 else 0.0" in best.code
    assert best.after_s < 0.5 * best.before_s
    assert best.before_s == report.prediction.time_s
    # a sum that waits for itself, beside it
    assert "accumulators" in [each.rule for each in advice.trades]
