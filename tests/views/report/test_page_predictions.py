"""Predictions on a report's page in a real browser: sliders, other machines, cards, each as Python predicts."""

from __future__ import annotations

import math

import pytest

import rooflab
from rooflab.units import duration, si
from rooflab.views.common.console import unbroken
from rooflab.views.report import alike, verdict
from rooflab.views.report.embed import embedded
from support.report_pages import close, program

pytestmark = pytest.mark.slow  # a browser is opened


def test_another_prediction_changes_everything(look):
    opened = look("variants")
    shown = opened.page
    both = rooflab.variants(program(), ["h200-sxm", "a100-sxm-80gb"], ["bandwidth=2x"], mode="graph")
    assert opened.texts("#prediction option") == list(both.names)
    for number, report in enumerate(both.reports):
        shown.select_option("#prediction", str(number))
        assert duration(report.time_s) in shown.inner_text("#facts")
        assert shown.text_content("#distance") == unbroken(verdict.distance(report))
        assert shown.text_content("#headline") == f"{verdict.headline(report)}."
        slowest = max(line.time_s for line in alike.lines_of(report))
        assert opened.column("time")[0] == duration(slowest)
        assert ("bandwidth × 2" in shown.inner_text("#how")) == (number % 2 == 1)
        assert report.machine.name in shown.get_attribute("#roofline", "aria-label")
        rate = (
            next(level for level in report.machine.levels if level.name == "HBM").rate(basis="theoretical").value
        )
        factor = report.setting.what_if.get("bandwidth", 1)
        assert si(rate * factor, "B/s") in " ".join(opened.texts("#roofline .roof-label"))
    assert shown.locator("table", has_text="error bar").count() == 1


@pytest.mark.parametrize("name", ["mixed", "host", "odd"])
def test_sliders_predict_again_as_python_does(look, mixed, name):
    """Every row, the total and the roofs, to a millionth of `what_if`."""
    report = {
        "mixed": mixed,
        "odd": program(odd=True).on("h200-sxm"),
        "host": rooflab.op("add", "512x512", "512x512", machine="h200-sxm", mode="eager"),
    }[name]
    opened = look(name)
    shown = opened.page
    assert shown.is_disabled("#reset")
    before = shown.inner_text("#facts")
    knobs = {"bandwidth": 2.0, "compute": 0.5, "cache_bandwidth": 4.0, "overhead": 0.25, "dispatch": 8.0}
    for turned in ({"bandwidth": 2.0}, {"overhead": 0.25}, {"compute": 0.5, "bandwidth": 8.0}, knobs):
        for knob in knobs:
            slider = shown.locator(f"#knob-{knob}")
            if slider.count() and slider.is_enabled():
                slider.fill(str(math.log2(turned.get(knob, 1.0))))
                assert shown.inner_text(f"#knob-{knob}-value") == f"{turned.get(knob, 1.0):g} ×"
        shown.wait_for_function(
            "turned => Object.entries(turned).every(([k, v]) => Page.state.knobs[k] === v)",
            arg={knob: factor for knob, factor in turned.items() if shown.locator(f"#knob-{knob}").count()},
        )
        other = report.on(report.machine, what_if=turned)
        wanted = embedded([("other", other)])["predictions"][0]
        found = shown.evaluate("({...Page.shown().columns, least: Page.shown().unpredicted})")
        for column in ("time_s", "low_s", "high_s", "floor_s", "compute_s", "overhead_s", "host_s", "ridge"):
            assert close(found[column], wanted["columns"][column]), column
            assert (found["total"].get(column, 0)) == pytest.approx(wanted["total"].get(column, 0), rel=1e-6)
        for level, seconds in wanted["columns"]["memory_s"].items():
            assert close(found["memory_s"][level], seconds)
        for column in ("bound", "binds"):
            assert found[column] == wanted["columns"][column]
            assert found["total"][column] == wanted["total"][column]
        assert duration(other.time_at_least_s) in shown.inner_text("#facts")
        assert shown.text_content("#headline") == f"{verdict.headline(other)}."
        assert duration(other.time_at_least_s) in shown.inner_text("#whatif-result")
        rate = si(4.8e12 * turned.get("bandwidth", 1.0), "B/s")
        assert f"HBM {rate}" in " ".join(opened.texts("#roofline .roof-label"))
    assert "what if: bandwidth × 2, " in shown.inner_text("#how")
    shown.click("#reset")
    assert "what if" not in shown.inner_text("#how")
    assert shown.inner_text("#facts") == before
    assert [box.input_value() for box in shown.locator("#whatif input").all()] == ["0"] * shown.locator(
        "#whatif input"
    ).count()


def test_a_slider_starts_from_the_prediction_that_is_shown(look):
    """On a variant with twice the bandwidth, twice is four times that of the machine."""
    opened = look("variants")
    opened.page.select_option("#prediction", "1")
    opened.page.fill("#knob-bandwidth", "1")
    opened.page.wait_for_function("() => Page.state.knobs.bandwidth === 2")
    four = program().on("h200-sxm", mode="graph", what_if="bandwidth=4x")
    assert opened.page.evaluate("Page.shown().columns.total.time_s") == pytest.approx(four.time_s, rel=1e-6)


def test_a_plain_report_can_be_looked_at_elsewhere(look):
    opened = look("one")
    names = opened.texts("#prediction option")
    assert names == [
        "NVIDIA H200 SXM 141GB",
        "NVIDIA H200 SXM 141GB, dtype=bf16",
        "NVIDIA H200 SXM 141GB, dtype=fp8",
        "NVIDIA A100 SXM 80GB",
        "NVIDIA H100 SXM 80GB",
        "NVIDIA B200 SXM 180GB",
    ]
    other = rooflab.op("matmul", "512x512", "512x512", machine="a100-sxm-80gb")
    opened.page.select_option("#prediction", "3")
    assert duration(other.time_s) in opened.page.inner_text("#facts")
    narrow = rooflab.op("matmul", "512x512", "512x512", machine="h200-sxm", what_if="dtype=bf16")
    opened.page.select_option("#prediction", "1")
    assert duration(narrow.time_s) in opened.page.inner_text("#facts")
    assert si(narrow.nbytes, "B") in opened.page.inner_text("#facts")


def test_cards_say_what_a_change_would_save(look, mixed):
    opened = look("advised")
    said = opened.page.locator(".card").first.inner_text().replace("\N{NO-BREAK SPACE}", " ")
    # Three are worth a look at once, the others are a click away.
    assert [card.is_visible() for card in opened.page.locator(".card").all()] == [True] * 3 + [False] * 2
    assert opened.page.is_hidden("#advice-of")
    opened.page.evaluate("Page.set({ knobs: { bandwidth: 2 } }, 'slider')")
    assert opened.page.inner_text("#advice-of").startswith("These savings are of NVIDIA H200")
    opened.page.evaluate("Page.set({ knobs: {} }, 'slider')")
    opened.page.click(".more-cards summary")
    assert opened.page.locator(".card").nth(4).is_visible()
    assert f"saves {duration(mixed.time_s - 0.75 * mixed.time_s)}, 25 %" in said
    assert "it saves −1.00 µs to" in said
    assert "a line of code" in said
    assert "model = torch.compile(model)" in said
    assert "Together (fuse, batch)" in opened.page.inner_text("main")
    assert "Not asked: tile: no loop." in opened.page.inner_text("main")
    opened.page.locator(".card button").first.click()
    assert opened.page.inner_text("#filter-count").startswith("2 of ")


def test_what_is_missing_makes_no_whole(look):
    opened = look("odd")
    assert "> " in opened.page.inner_text("#facts")
    assert set(opened.column("share")) == {"–"}
    assert "Not counted" in opened.page.inner_text("#warnings")
    row = opened.page.locator("#operations-table tbody tr", has_text="my::sampling").inner_text()
    assert "0 " not in row.replace("my::sampling", "")


def test_a_machine_that_cannot_run_it_takes_the_words_of_the_first_away(look):
    """An A100 has no fp8: neither the time nor the verdict of the H100 before may stand there."""
    opened = look("fp8")
    assert opened.page.inner_text("#headline").startswith("The host limits it")
    opened.page.select_option("#prediction", "1")
    assert opened.page.inner_text("#headline") == "What limits it is not known: 1 operation without a prediction."
    assert opened.page.inner_text("#distance") == opened.page.inner_text("#how") == ""
    assert "time" not in opened.texts("#facts dt")


def test_what_twice_as_much_of_each_would_bring_is_said_without_a_slider(look, mixed):
    opened = look("mixed")
    opened.page.wait_for_function("() => document.getElementById('twice').textContent.includes('as fast')")
    said = opened.page.text_content("#twice").replace("\N{NO-BREAK SPACE}", " ")
    for knob, title, factor in (
        ("bandwidth", "memory bandwidth", 2),
        ("compute", "arithmetic peaks", 2),
        ("overhead", "time to start a kernel (half)", 0.5),
    ):
        times = mixed.time_s / mixed.on(mixed.machine, what_if={knob: factor}).time_s
        assert f"{title} {f'{times:.2f} ×' if times >= 1.005 else 'no change'}" in said


def test_the_time_is_split_by_what_binds_each_operation(look, mixed):
    """By what binds each row, as the headline is found: its largest part is what the headline names."""
    opened = look("mixed")
    words = {"memory": 0.0, "arithmetic": 0.0, "overhead": 0.0}
    for row in mixed.rows:
        one = row.prediction
        kind = "memory" if one.binds in one.memory_s else "overhead" if one.binds == "launch" else "arithmetic"
        words[kind] += one.time_s
    whole = sum(words.values())
    said = opened.page.text_content("#split")
    for word, seconds in words.items():
        if seconds >= 0.005 * whole:
            assert f"{word} {100 * seconds / whole:.1f} %" in said


def test_the_headline_names_the_largest_part_of_the_split_wherever_a_slider_stands(look):
    """Of 24 equal products the first wait for the host and the others do not: bound by row, not by line."""
    opened = look("queued")
    kinds = {"The host": "overhead", "Starting": "overhead", "Overhead": "overhead", "Memory": "memory"}
    kinds |= {"Arithmetic": "arithmetic", "Issuing": "arithmetic"}
    seen = set()
    for eighths in range(-16, 25, 4):
        opened.page.evaluate("factor => Page.set({ knobs: { dispatch: factor } }, 'slider')", 2 ** (eighths / 8))
        headline, split = opened.page.text_content("#headline"), opened.page.text_content("#split")
        bound = opened.page.evaluate("Page.shown().total.bound")
        seen.add(headline)
        if bound != "balanced":
            named = next(kind for word, kind in kinds.items() if headline.startswith(word))
            assert split.startswith(f"By what binds each operation: {named}"), (headline, split)
    assert len(seen) > 1


def test_the_share_of_the_nearest_roof_and_the_subject_are_said(look, mixed):
    """Seconds at the roof over seconds predicted: bytes at 4.8 TB/s, bf16 products at 989.4 TFLOP/s."""
    opened = look("mixed")
    memory = mixed.nbytes / 4.8e12
    matrix = mixed.matrix_flop / 989.4e12
    share = max(memory, matrix) / mixed.time_s
    assert f"nearest roof{100 * share:.1f} %of HBM" in opened.page.text_content("#facts")
    opened.page.click("#operations-table tbody .pick >> nth=0")
    assert "nearest roof" in opened.page.text_content("#selected-facts")
    cpu = look("cpu").page
    assert cpu.text_content("#subject") == "NumPy · forward pass · input a 1,000,000 fp64 · report_pages.py"
    assert "faster" in cpu.text_content("#whatif")
