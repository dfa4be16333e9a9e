"""The page of a profile in a real browser: its controls used, its values held against the profile."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

import rooflab
from rooflab.model.roofline.counted import place
from rooflab.types.counted import Counted
from rooflab.types.finding import Finding
from rooflab.types.placement import InstructionPlacement
from rooflab.types.prediction import Prediction
from rooflab.types.profile import KernelTime, Observation, Profile, ProfileRow
from rooflab.types.profiles import Profiles
from rooflab.types.timeline import DeviceTime, Idle, Timeline
from rooflab.types.work import Cost, Flop, Traffic
from rooflab.units import duration
from rooflab.views.profile import verdict
from rooflab.views.profile.embed import embedded
from rooflab.views.profile.lines import lines_of
from support.report_pages import Opened

EVIL = "</script><img src=x onerror=alert(1)>"
H200 = rooflab.machine("h200-sxm")


def row(number: int, *, name: str = "", predicted: bool = True, flop: float | None = 1e10) -> ProfileRow:
    """An operation of layer `number` that took (number + 1) × 10 µs, in two executions."""
    time_s = (number + 1) * 1e-5
    asked = () if not flop else (Flop("matrix", "bf16", flop / (1 + number % 7)),)
    cost = None if flop is None else Cost(flop=asked, compulsory=Traffic("memory", 1e7, 0.0, "compulsory"))
    work = None if cost is None else Counted(name=name, time_s=time_s, flop=asked, traffic=(cost.compulsory,))
    one = Prediction(
        time_s=time_s * 0.8,
        low_s=time_s * 0.5,
        high_s=time_s * 1.1,
        floor_s=time_s * 0.1,
        bound="memory-bound",
        binds="HBM",
        compute_s=time_s * 0.2,
        memory_s={"HBM": time_s * 0.6},
        overhead_s=time_s * 0.1,
        host_s=0.0,
        kernels=1,
    )
    seconds = Observation(
        time_s=time_s,
        low_s=time_s * 0.4,
        high_s=time_s * 0.6,
        kernels=(KernelTime(name=f"kernel{number}", runs=2, time_s=time_s),),
    )
    return ProfileRow(
        name=name or f"aten.mm{number % 11}",
        kind="matmul" if flop else "copy",
        shapes=f"{number} × 64 · 64 × 64",
        dtype="bf16",
        executions=2,
        observation=seconds,
        cost=cost,
        why=None if cost else "no formula",
        placement=None if work is None else place(work, H200),
        prediction=one if predicted else None,
        module=f"layers.{number % 4}.mlp",
    )


def timeline() -> Timeline:
    idle = Idle(cause="launches", seconds=3e-4, gaps=3, longest_s=2e-4, at_s=0.0, before="kernel1")
    parts = {"compute": (0.5, 1.0, 0.0), "copy": (0.25, 0.0, 0.0), "idle: launches": (0.25, 0.0, 1.0)}
    one = DeviceTime(
        device=0,
        span_s=3e-3,
        busy_s=2.7e-3,
        kernels_s=2.7e-3,
        kernels=9,
        compute_s=2.7e-3,
        copy_s=0.0,
        collective_s=0.0,
        exposed_copy_s=0.0,
        exposed_collective_s=0.0,
        idle=(idle,),
        parts=parts,
    )
    return Timeline(devices=(one,))


def profile(count: int = 30, name: str = "run") -> Profile:
    rows = (
        *(row(number) for number in range(count)),
        row(3, name=EVIL, flop=0.0),
        row(5, name="odd", predicted=False, flop=None),
    )
    cause = Finding(
        rule="idle", kind="cause", says=f"waited {EVIL}", hint="launch less", rows=("odd",), time_s=1e-4
    )
    return Profile(
        name=f"{name} {EVIL}",
        source="test",
        rows=tuple(sorted(rows, key=lambda one: -one.time_s)),
        timeline=timeline(),
        machine=H200,
        findings=(cause,),
        notes=("measured by a made-up clock",),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("profile")
    profile().save(made / "one.html")
    both = (profile(), profile(5, "second"))
    Profiles(name="both", profiles=both).save(made / "both.html")
    return made


@pytest.fixture
def look(browser, folder):
    """A function (name, width, scheme) that opens a page; nothing may be said or asked for meanwhile."""
    seen = []

    def open_it(name, width=1440, scheme="light"):
        seen.append(Opened(browser, folder / f"{name}.html", width, scheme))
        return seen[-1].page

    yield open_it
    for opened in seen:
        assert opened.said == []
        assert len(opened.asked) == 1
        opened.page.close()


def test_each_row_is_in_one_line_and_sums_are_kept():
    one = profile()
    held = embedded([one])
    lines, columns = held["programs"][0]["lines"], held["predictions"][0]["columns"]
    assert sorted(number for rows in lines["rows"] for number in rows) == list(range(len(one.rows)))
    assert sum(columns["time_s"]) == pytest.approx(one.time_s, rel=1e-8)
    # 0.8 of the measured time is predicted, of all but one row; that one's prediction is unknown, not nought.
    known = [each for each in columns["expected_s"] if each is not None]
    assert sum(known) == pytest.approx(0.8 * (one.time_s - 6e-5), rel=1e-8)
    assert columns["expected_s"][lines["name"].index("odd")] is None
    assert lines["flop"][lines["name"].index("odd")] is None
    # Two executions, each 0.4 to 0.6 of the time of both together.
    assert columns["low_s"][0] == pytest.approx(0.8 * columns["time_s"][0], rel=1e-8)
    assert columns["high_s"][0] == pytest.approx(1.2 * columns["time_s"][0], rel=1e-8)


def test_rows_of_numbered_layers_are_one_line():
    """Equal but for the layer: layers 0 to 3, 10 µs to 40 µs, 100 µs together."""
    shape = {"name": "aten.mm", "shapes": "a", "bound": None}
    rows = tuple(msgspec.structs.replace(row(number), name=shape["name"], shapes="a") for number in range(4))
    (line,) = lines_of(rows)
    assert (line.module, line.executions, line.numbers) == ("layers.0–3.mlp", 8, (0, 1, 2, 3))
    assert line.time_s == pytest.approx(1e-4)


def test_the_verdict_names_what_took_most():
    one = profile()
    waiting = rooflab.types.limit.Limit(bound="overhead-bound", binds="launches", seconds=3.0)
    memory = rooflab.types.limit.Limit(bound="memory-bound", binds="HBM", seconds=1.0)
    held = msgspec.structs.replace(one, limits=(waiting, memory), bound="overhead-bound", binds="launches")
    said = verdict.headline(held)
    assert said == "Waiting limited it: the host had not launched the next kernel, 75 % of the time"
    held = msgspec.structs.replace(one, limits=(memory,), bound="memory-bound", binds="HBM")
    assert verdict.headline(held) == "Memory traffic limited it: HBM, 100 % of the time"
    nothing = msgspec.structs.replace(one, rows=(), limits=())
    assert verdict.headline(nothing).startswith("What limited it is not known")


def test_names_are_escaped_and_a_thousand_rows_stay_small():
    text = _text(profile(1000))
    assert EVIL not in text
    assert "<img src=x" not in text
    assert len(text.encode()) < 3e6
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    held = json.loads(found[1])
    assert EVIL in held["programs"][0]["lines"]["name"]


def _text(one: Profile) -> str:
    from rooflab.views.profile import html

    return html(one)


def test_a_cell_of_a_notebook_holds_no_script():
    from rooflab.views import notebook_cell

    assert "<script" not in notebook_cell(profile())


pytest_slow = pytest.mark.slow  # a browser is opened


@pytest_slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 768, 390])
@pytest.mark.parametrize("name", ["one", "both"])
def test_no_page_scrolls_sideways_or_cuts_what_decides(look, name, width, scheme):
    shown = look(name, width, scheme)
    assert shown.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    for key in ("operation", "time", "share", "bound"):
        box = shown.locator(f"#operations-table th[data-key={key}]").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


@pytest_slow
def test_marks_bars_and_rows_are_tied(look):
    shown = look("one")
    one = profile()
    lines = lines_of(one.rows)
    both = [line for line in lines if line.predicted("time_s") is not None]
    assert shown.locator("#against .dot").count() == len(both)
    assert shown.locator("#roofline .dots .dot").count() == len(lines) - 1  # "odd" has no FLOP known
    assert "1 of " in shown.inner_text("#roofline-note")
    # Measured is 1.25 × of what is predicted, at most 1.1 / 0.8 of it.
    assert "1.25 ×" in shown.inner_text("#against-note")
    shown.locator("#operations-table tbody tr").nth(1).locator(".pick").click()
    line = shown.get_attribute("#operations-table tbody tr.selected", "data-line")
    for chart in ("roofline", "against"):
        assert shown.get_attribute(f"#{chart} .dot.selected", "data-line") == line
    assert "1.25 ×" in shown.inner_text("#selected-facts")
    shown.click("#selected-close")
    shown.locator("#against").scroll_into_view_if_needed()
    box = shown.locator("#against .dots .dot").first.bounding_box()
    shown.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert "measured" in shown.inner_text("#tip")
    shown.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert shown.locator("#operations-table tbody tr.selected").count() == 1
    shown.uncheck("#against-errors")
    assert shown.locator("#against .bars path").count() == 0


@pytest_slow
def test_zoom_timeline_and_filters(look):
    shown = look("one")
    at = "document.querySelector('#against .dots .dot').getAttribute('d')"
    first = shown.evaluate(at)
    shown.click("#against-zoom-in")
    assert shown.evaluate(at) != first
    shown.click("#against-zoom-reset")
    assert shown.evaluate(at) == first
    shown.locator("#timeline").scroll_into_view_if_needed()
    box = shown.locator("#timeline svg").bounding_box()
    shown.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 40)
    said = shown.inner_text("#tip")
    assert "2.00 ms to 3.00 ms" in said
    assert "idle: launches" in said
    assert "100.0 %" in said
    assert "idle: launches" in shown.inner_text("#timeline-legend")
    shown.locator(".card button").first.click()
    assert shown.inner_text("#filter-count").startswith("1 of ")
    shown.click("#filter-clear")
    for key in ("time", "expected", "against", "rate", "moved", "times"):
        shown.locator(f"#operations-table th[data-key={key}] button").click()
        assert shown.locator(f"#operations-table th[data-key={key}]").get_attribute("aria-sort") != "none"
    assert shown.locator("#tree summary").count() > 0


@pytest_slow
def test_another_file_changes_everything(look):
    shown = look("both")
    one, other = profile(), profile(5, "second")
    assert duration(one.time_s) in shown.inner_text("#facts")
    assert shown.inner_text("#how").startswith("Of run ")
    shown.select_option("#prediction", "1")
    assert shown.inner_text("#how").startswith("Of second ")
    assert duration(other.time_s) in shown.inner_text("#facts")
    assert shown.locator("#operations-table tbody tr").count() == len(lines_of(other.rows))


@pytest_slow
def test_instructions_have_a_roofline_of_their_own(browser, tmp_path):
    placed = InstructionPlacement(
        inst_per_s=1e11,
        peak_inst_per_s=1e12,
        intensity={"HBM": 0.5, "L2": 0.25},
        attainable_inst_per_s={"HBM": 5e11, "L2": 8e11},
        transactions_per_s={"HBM": 2e11, "L2": 4e11},
        binds="HBM",
    )
    one = row(1)
    assert one.placement
    one = msgspec.structs.replace(one, placement=msgspec.structs.replace(one.placement, instruction=placed))
    held = msgspec.structs.replace(profile(), rows=(one, row(2)))
    held.save(tmp_path / "instructions.html")
    opened = Opened(browser, tmp_path / "instructions.html")
    assert opened.page.locator("#instructions .dot").count() == 2
    assert "inst/s" in opened.page.text_content("#instructions")
    assert "stride" in opened.page.text_content("#instructions")
    opened.page.locator("#operations-table tbody tr .pick").nth(1).click()
    assert opened.page.locator("#instructions .dot.selected").count() == 2
    assert opened.said == []
    opened.page.close()
