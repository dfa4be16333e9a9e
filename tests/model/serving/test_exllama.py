"""ExLlamaV2: weights that stream past few rows, widened in memory for more; its own published figures."""

import numpy as np
import pytest

import rooflab
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.step import StepModel
from rooflab.work.llm import models
from rooflab.work.llm.precision import precision


def step(name="llama-2-7b", card="rtx-4090", word="exl2-4"):
    return StepModel(models.named(name), rooflab.machine(card), engine="exllamav2", precision=word)


def test_the_head_has_six_bits():
    form = precision("exl2_4")
    assert (form.linear.bits, form.head.bits, form.embedding.bits) == (4, 6, 16)


def test_one_row_reads_the_weights_once():
    """6.476e9 weights of the layers at 4 bits, 131e6 of the head at 6."""
    made = step().kernels(Batch(decode_sequences=1.0, decode_context=100.0))
    read = sum(float(np.max(each.weight_bytes * each.count)) for each in made)
    assert read == pytest.approx(6.476e9 / 2 + 131.1e6 * 6 / 8, rel=1e-3)


def test_many_rows_are_multiplied_in_16_bits_after_the_weights_are_written_so():
    made = step().time(Batch(prefill_sequences=1.0, prefill_tokens=500.0))
    widened = sum(part.nbytes[0] for part in made.parts if "widen" in part.name)
    assert widened == pytest.approx(6.476e9 * (0.5 + 2.0), rel=1e-3)


@pytest.mark.parametrize(
    ("name", "card", "word", "per_s"),
    [
        ("llama-2-7b", "rtx-3090-ti", "exl2_4", 179),
        ("llama-2-7b", "rtx-4090", "exl2_4", 207),
        ("llama-2-7b", "rtx-4090", "exl2_5", 170),
        ("llama-2-13b", "rtx-4090", "int4_wo", 111),
    ],
)
def test_it_is_as_fast_as_its_own_table_says(name, card, word, per_s):
    """turboderp/exllamav2, README at 01d01a14: tokens a second without sampling, which the engine's step adds."""
    model = step(name, card, word)
    made = model.time(Batch(decode_sequences=1.0, decode_context=128.0))
    assert made.seconds[0] - model.engine.step_s == pytest.approx(1.0 / per_s, rel=0.12)


def test_many_settings_are_the_same_as_each_alone():
    counts = np.array([1.0, 2.0, 50.0, 51.0, 300.0])
    for word in ("exl2_4", "bnb_nf4"):
        together = step(word=word).time(Batch(decode_sequences=counts, decode_context=100.0)).seconds
        alone = [step(word=word).time(Batch(decode_sequences=n, decode_context=100.0)).seconds[0] for n in counts]
        assert together == pytest.approx(alone, rel=1e-12)
