"""Engines that run PyTorch operation by operation: their calls, counted by hand, and what copies cost."""

import numpy as np
import pytest

import rooflab
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.step import StepModel
from rooflab.work.llm import models

ONE = Batch(decode_sequences=1.0, decode_context=288.0)
LAYERS = 32


def step(name="llama-2-7b", engine="transformers", precision="fp16"):
    return StepModel(models.named(name), rooflab.machine("a100-sxm-80gb"), engine=engine, precision=precision)


def calls(model):
    """A layer's: of what runs once a layer or more often, and has something to do."""
    pairs = zip(model.kernels(ONE), model.time(ONE).parts, strict=True)
    ours = [kernel for kernel, part in pairs if part.seconds[0] > 0 and np.max(kernel.count) >= LAYERS]
    return sum(each.calls * each.count / LAYERS for each in ours)


def test_a_layer_of_llama_is_forty_calls():
    """7 products, attention, 18 of two norms with the residuals, 10 of RoPE, 2 of the cache, 2 of SwiGLU."""
    assert calls(step()) == 7 + 1 + 2 * 9 + 10 + 2 + 2


def test_fp32_casts_nothing():
    assert calls(step(precision="fp32")) == 40 - 2 * 2


def test_older_transformers_make_the_angles_in_every_layer_and_copy_shared_keys():
    assert calls(step(engine="transformers-4")) == 40 + 7
    assert calls(step("mistral-7b", "transformers-4")) == 40 + 7 + 2
    assert calls(step("mistral-7b")) == 40


@pytest.mark.parametrize(("precision", "each"), [("bnb_int8", 27), ("bnb_nf4", 5)])
def test_a_product_of_bitsandbytes_is_several_calls(precision, each):
    assert calls(step(precision=precision)) - calls(step()) == 7 * (each - 1)


def test_weights_in_four_bits_that_meet_several_rows_are_written_wide_first():
    """6.476e9 weights of the layers: 4.5 bits read, 2 bytes written and read again."""
    model = step(precision="bnb_nf4")
    made = model.time(Batch(decode_sequences=8.0, decode_context=288.0))
    widened = sum(part.nbytes[0] for part in made.parts if "widen" in part.name)
    assert widened == pytest.approx(6.476e9 * (4.5 / 8 + 2), rel=1e-3)
    assert not any(part.seconds[0] for part in model.time(ONE).parts if "widen" in part.name)


def test_the_host_of_an_eager_step_takes_its_calls():
    """20 us for each of 32 times 40 calls, 13 of the end, and 0.6 ms between steps: more than the kernels take."""
    made = step().time(ONE)
    assert made.kernel_s[0] < made.seconds[0]
    assert made.seconds[0] == pytest.approx((32 * 40 + 13) * 20e-6 + 0.6e-3, rel=0.01)


def test_a_growing_cache_is_read_and_written_once_more():
    """2 x 4096 x 2 bytes of each token and layer, both ways; of 32 sequences of 2048 tokens, 68.7 GB."""
    batch = Batch(decode_sequences=32.0, decode_context=2048.0)
    copies = [each for each in step().kernels(batch) if each.name == "copy the cache to a longer one"]
    moved = sum(np.max(each.count * (each.read_bytes + each.write_bytes)) for each in copies)
    assert moved == pytest.approx(2 * 32 * 2048 * 32 * 2 * 4096 * 2)
