"""The picture of variants: a row for each, per sample where the work differs, unknown said and not drawn."""

from __future__ import annotations

import msgspec
import pytest

import rooflab
import rooflab.units
from rooflab.errors import RooflabError
from rooflab.types.variants import Variants
from rooflab.views.variants.chart import chart
from rooflab.views.variants.sheet import samples, table


def batched(size: int):
    return rooflab.op("linear", (size, 1024), (1024, 1024), dtype="bf16", machine="h200-sxm", advice=False)


@pytest.fixture(scope="module")
def batches():
    reports = (batched(8), batched(4096))
    return Variants(name="layer", names=("batch 8", "batch 4096"), reports=reports)


def rows(variants: Variants) -> dict[str, str]:
    """What is written at the end of each row."""
    found = {}

    def walk(part):
        if isinstance(part, dict):
            values = part.get("data", {}).get("values", []) if isinstance(part.get("data"), dict) else []
            found.update({each["row"]: each["text"] for each in values if "text" in each})
            for each in part.values():
                walk(each)
        elif isinstance(part, list):
            for each in part:
                walk(each)

    walk(chart(variants).to_dict())
    return found


def test_each_has_a_row_with_its_time_and_interval():
    square = rooflab.op("matmul", (4096, 4096), (4096, 4096), dtype="bf16")
    compared = rooflab.variants(square, ["h200-sxm", "l4"])
    said = rows(compared)
    assert list(said) == ["h200-sxm", "l4"]
    low, high = (rooflab.units.duration(each) for each in (compared.reports[1].low_s, compared.reports[1].high_s))
    assert said["l4"].endswith(f"({low} to {high})")


def test_other_inputs_are_other_work(batches):
    # The leading sizes of a linear layer's operands differ (x and w): its work is told by neither.
    assert samples(batches) is None
    assert [row[3] for row in table(batches).rows] == ["1 ×", "–"]


def test_batches_are_held_against_each_other_for_each_sample():
    def at(size: int):
        return rooflab.op("relu", (size, 4096), dtype="bf16", machine="h200-sxm", advice=False)

    both = Variants(name="relu", names=("8", "8192"), reports=(at(8), at(8192)))
    assert samples(both) == (8.0, 8192.0)
    first, second = (report.time_s / size for report, size in zip(both.reports, samples(both), strict=True))
    assert table(both).rows[1][3] == f"{first / second:.3g} ×"
    assert rows(both)["8192"].startswith(rooflab.units.duration(second))


def test_what_is_not_predicted_as_a_whole_is_said_and_not_drawn(batches):
    lost = msgspec.structs.replace(batches.reports[1], prediction=None)
    one = msgspec.structs.replace(batches, reports=(batches.reports[0], lost))
    assert rows(one)["batch 4096"] == "not predicted as a whole"
    none = msgspec.structs.replace(batches, reports=(lost, lost))
    with pytest.raises(RooflabError, match="layer: no variant is predicted as a whole, so no picture"):
        chart(none)


@pytest.mark.slow
def test_it_is_written_as_svg_png_and_pdf(batches, tmp_path):
    paths = [tmp_path / f"v{suffix}" for suffix in (".svg", ".png", ".pdf")]
    batches.save(*paths)
    assert all(path.stat().st_size > 1000 for path in paths)
