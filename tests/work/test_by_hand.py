"""Operations by hand: right tensors and numbers from shapes, and errors that say what to write."""

from __future__ import annotations

import pytest

from rooflab.errors import RooflabError, UnknownNameError
from rooflab.work import by_hand, counting
from rooflab.work.costs import costs
from rooflab.work.formulas.functions import REAL

# kind, shapes, settings, dtype, matrix FLOP, compulsory bytes
COUNTED = (
    # 2·m·n·k = 2·2·4·3; (2·3 + 3·4 + 2·4)·4 bytes
    ("matmul", ["2x3", "3x4"], {}, "fp32", 48, 104),
    # a batch of 5, b shared by all of it: 2·5·2·4·3; (30 + 12 + 40)·4
    ("matmul", ["5x2x3", "3x4"], {}, "fp32", 240, 328),
    # a vector on the right: 2·2·3; (6 + 3 + 2)·2
    ("matmul", ["2x3", "3"], {}, "bf16", 12, 22),
    # two vectors: 2·7; (7 + 7 + 1)·8
    ("matmul", ["7", "7"], {}, "fp64", 14, 120),
    # int8 gives int32: 6 + 12 + 8·4
    ("matmul", ["2x3", "3x4"], {}, "int8", 48, 50),
    # 4-bit weights: 2·2·4·3; 6·2 + 12/2 + 8·2
    ("matmul", ["2x3:fp16", "3x4:int4"], {}, "fp16", 48, 34),
    # a complex multiply-add is 8: 8·2·2·2; 3·4·8
    ("matmul", ["2x2", "2x2"], {}, "complex64", 64, 96),
    # w is out × in; a bias of 4: 2·2·4·3; (6 + 12 + 8 + 4)·4
    ("linear", ["2x3", "4x3"], {"bias": True}, "fp32", 48, 120),
    # depthwise, same size: 2·9 for each of 64·32·32 outputs; (65,536·2 + 576)·4
    ("conv2d", ["1x64x32x32", "64x1x3x3"], {"groups": 64, "padding": "same"}, "fp32", 1_179_648, 526_592),
    # stride 2 without padding: (5 − 3)/2 + 1 = 2 each way; 2·9·3 for each of 4·2·2; (75 + 108 + 16)·4
    ("conv2d", ["1x3x5x5", "4x3x3x3"], {"stride": 2}, "fp32", 864, 796),
    # transposed: Cin·Cout·k² per input pixel = 32·1·9 multiply-adds; (32 + 288 + 9)·4
    ("conv2d", ["1x32x1x1", "32x1x3x3"], {"transposed": True}, "fp32", 576, 1316),
    # 4·B·H·S²·D = 4·1·12·64²·64; four tensors of 49,152
    ("attention", ["1x12x64x64"], {}, "fp32", 12_582_912, 786_432),
    # causal: S·(S + 1)/2 pairs: 4·8·64·128·129/2
    ("attention", ["1x8x128x64"], {"causal": True}, "fp16", 16_908_288, 524_288),
    # a window of 4 keys in 8: 4·5/2 + 4·4 = 26 pairs, 4·2 FLOP each; four tensors of 16
    ("attention", ["1x1x8x2"], {"window": 4}, "fp32", 208, 256),
    # 2 of 8 heads for k and v: 4·8·256²·64; 2·(2·8 + 2·2)·256·64
    ("attention", ["1x8x256x64"], {"kv_heads": 2}, "bf16", 134_217_728, 655_360),
    # one query over 4096 keys: 4·64·4096·128; q and o 8192, k and v 8·4096·128 elements each
    ("attention", ["1x64x1x128", "1x8x4096x128"], {}, "fp16", 134_217_728, 16_809_984),
    # the same with causal: the one query stands at the last key and sees all 4096
    ("attention", ["1x64x1x128", "1x8x4096x128"], {"causal": True}, "fp16", 134_217_728, 16_809_984),
    # 2 queries at the last of 5 keys see 4 and 5: 9 pairs of 4·2 FLOP; q and o 4, k and v 10 elements each
    ("attention", ["1x1x2x2", "1x1x5x2"], {"causal": True}, "fp32", 72, 112),
    # at the first of 5 keys they see 1 and 2: 3 pairs; keys 3 to 5 are not read
    ("attention", ["1x1x2x2", "1x1x5x2"], {"causal": True, "causal_from": "top_left"}, "fp32", 24, 64),
    # T·B·4H·(I + H) multiply-adds: 10·4·256·96
    ("lstm", ["10x4x32"], {"hidden": 64}, "fp32", 1_966_080, None),
    # 3 gates: 2·10·4·192·96
    ("gru", ["10x4x32"], {"hidden": 64}, "fp32", 1_474_560, None),
)


@pytest.mark.parametrize(("kind", "shapes", "settings", "dtype", "flop", "nbytes"), COUNTED)
def test_products_are_counted(kind, shapes, settings, dtype, flop, nbytes):
    found = report(kind, *shapes, dtype=dtype, **settings)
    assert found.coverage.complete
    assert found.matrix_flop == flop
    if nbytes is not None:
        assert found.nbytes == nbytes


# kind, shapes, settings, dtype, bytes read, bytes written
MOVED = (
    ("relu", ["1000"], {}, "fp16", 2000, 2000),
    # one shape stands for both operands: 2 reads, 1 write
    ("add", ["1000"], {}, "fp32", 8000, 4000),
    # a broadcast operand crosses once
    ("add", ["10x100", "100"], {}, "fp32", 4400, 4000),
    # a comparison gives a byte an element
    ("eq", ["1000"], {}, "fp32", 8000, 1000),
    ("softmax", ["8x128"], {}, "fp32", 4096, 4096),
    # weight and bias of the last dimension
    ("layer_norm", ["8x128"], {}, "fp32", 4096 + 1024, 4096),
    ("layer_norm", ["8x128"], {"affine": False}, "fp32", 4096, 4096),
    ("rms_norm", ["8x128"], {}, "bf16", 2048 + 256, 2048),
    ("max_pool2d", ["1x1x8x8"], {"kernel": 2}, "fp32", 256, 64),
    ("sum", ["8x128"], {}, "fp32", 4096, 4),
    ("sum", ["8x128"], {"dims": 1}, "fp32", 4096, 32),
    # 100 rows of 300 and 100 indices of 8 bytes
    ("embedding", ["20x300", "1x100"], {}, "fp32", 120_800, 120_000),
    ("copy", ["1000"], {}, "fp32", 4000, 4000),
    ("cast", ["1000"], {"to": "bf16"}, "fp32", 4000, 2000),
    ("transpose", ["10x100"], {}, "fp32", 4000, 4000),
    # parameter, gradient and two moments read; all but the gradient written
    ("adam", ["1000"], {}, "fp32", 16_000, 12_000),
    ("sgd", ["1000"], {}, "fp32", 8000, 4000),
)


@pytest.mark.parametrize(("kind", "shapes", "settings", "dtype", "read", "written"), MOVED)
def test_bytes_cross_once(kind, shapes, settings, dtype, read, written):
    found = report(kind, *shapes, dtype=dtype, **settings)
    assert found.coverage.complete
    assert (found.read_bytes, found.write_bytes) == (read, written)


# function, bytes on the wire of each of 8 ranks that hold 8000 bytes before
WIRE = (
    ("all_reduce", 2 * 7 / 8 * 8000),
    ("all_gather", 7 / 8 * 64_000),
    ("reduce_scatter", 7 / 8 * 8000),
    ("all_to_all", 7 / 8 * 8000),
)


@pytest.mark.parametrize(("kind", "wire"), WIRE)
def test_collectives_have_bytes_on_the_wire(kind, wire):
    assert report(kind, "2000", ranks=8).wire_bytes == wire


@pytest.mark.parametrize("kind", by_hand.kinds())
def test_every_kind_has_a_formula(kind):
    shapes, settings = EXAMPLES.get(kind, (["8x8"], {}))
    found = report(kind, *shapes, **settings)
    assert found.coverage.complete, found.coverage
    assert found.nbytes > 0


EXAMPLES = {
    "matmul": (["8x8", "8x8"], {}),
    "bmm": (["2x8x8", "2x8x8"], {}),
    "gemm": (["8x8", "8x8"], {}),
    "linear": (["8x8", "8x8"], {}),
    "conv1d": (["1x3x8", "4x3x3"], {}),
    "conv2d": (["1x3x8x8", "4x3x3x3"], {}),
    "conv3d": (["1x3x8x8x8", "4x3x3x3x3"], {}),
    "attention": (["1x2x8x4"], {}),
    "lstm": (["2x3x4"], {"hidden": 5}),
    "gru": (["2x3x4"], {"hidden": 5}),
    "batch_norm": (["2x3x4"], {}),
    "group_norm": (["2x4x4"], {"groups": 2}),
    "max_pool2d": (["1x3x8x8"], {}),
    "avg_pool2d": (["1x3x8x8"], {}),
    "embedding": (["10x4", "3"], {}),
    "cast": (["8x8"], {"to": "fp16"}),
    "all_reduce": (["8x8"], {"ranks": 2}),
    "all_gather": (["8x8"], {"ranks": 2}),
    "reduce_scatter": (["8x8"], {"ranks": 2}),
    "all_to_all": (["8x8"], {"ranks": 2}),
    "broadcast": (["8x8"], {"ranks": 2}),
}

# kind, shapes, settings, what the error says
REFUSED = (
    ("matmull", ["2x2", "2x2"], {}, r"unknown operation 'matmull'; did you mean matmul"),
    ("matmul", ["2x3", "4x5"], {}, r"matmul: a 2x3 has 3 columns but b 4x5 has 4 rows, expected the same"),
    ("matmul", ["2x3"], {}, r"matmul: got 1 shapes \(2x3\), expected 2: a \(… × m × k\) and b"),
    ("matmul", ["2y3", "3x3"], {}, r"'2y3' is not a shape, expected sizes with x between, such as 4096x1024"),
    ("matmul", ["2x2:fp9", "2x2"], {}, r"unknown dtype 'fp9'; did you mean fp8"),
    ("matmul", [(2, -2), "2x2"], {}, r"shape \(2, -2\) has a negative size"),
    ("matmul", [(2.5, 2), "2x2"], {}, r"shape \(2.5, 2\) is not of whole numbers"),
    ("conv2d", ["1x3x8x8", "4x3x3x3"], {"grups": 1}, r"unknown setting of conv2d 'grups'.*stride=1.*groups=1"),
    ("conv2d", ["1x3x8x8", "4x3x3x3"], {"groups": 2}, r"groups is 2, expected a divisor of the 3 channels"),
    ("conv2d", ["1x3x8x8", "4x2x3x3"], {}, r"w 4x2x3x3 takes 2 channels, expected 3: w is Cout × C/groups"),
    ("conv2d", ["1x3x2x2", "4x3x3x3"], {}, r"x 1x3x2x2 is smaller than the kernel"),
    ("conv2d", ["1x3x8x8", "4x3x3x3"], {"stride": "a"}, r"stride is \('a',\), expected one number or 2"),
    ("attention", ["2x3"], {}, r"attention: q is 2x3, expected B × H × S × D"),
    ("attention", ["1x8x4x4", "1x3x4x4"], {}, r"8 heads of q over 3 of k and v, expected a multiple"),
    ("attention", ["1x8x4x4"], {"window": 0}, r"window is 0, expected at least 1 key"),
    ("attention", ["1x8x4x4"], {"causal_from": "end"}, r"causal_from is 'end', expected 'top_left' or"),
    ("attention", ["1x8x4x4"], {"causal": "yes"}, r"attention: causal is 'yes', expected True or False"),
    ("conv2d", ["1x3x8x8", "4x3x3x3"], {"stride": 0}, r"stride is 0, expected a whole number of at least 1"),
    ("conv2d", ["1x3x8x8", "4x3x3x3"], {"dilation": (1, 0)}, r"dilation is 0, expected a whole number"),
    ("conv2d", ["1x3x8x8", "4x3x3x3"], {"padding": -1}, r"padding is -1, expected a whole number of at least 0"),
    ("conv1d", ["1x3x8x8", "4x3x3x3"], {}, r"x is 1x3x8x8, expected N × C and 1 of space"),
    ("max_pool2d", ["1x3x8x8"], {"stride": 0}, r"stride is 0, expected a whole number of at least 1"),
    ("lstm", ["2x3x4"], {"hidden": -1}, r"hidden is -1, expected a whole number of at least 1"),
    ("lstm", ["2x3x4"], {"hidden": 4, "layers": 0}, r"layers is 0, expected a whole number of at least 1"),
    ("matmul", [None, "2x2"], {}, r"shape None is not of whole numbers"),
    ("lstm", ["2x3x4"], {}, r"lstm needs its hidden, expected such as hidden=8"),
    ("lstm", ["2x3x4"], {"hidden": 8, "projection": 8}, r"projection is 8, expected fewer than the 8 hidden"),
    ("cast", ["8"], {}, r"cast needs its to, expected such as to=bf16 \(--set to=bf16\)"),
    ("dropout", ["8"], {"p": 1.5}, r"dropout: p is 1.5, expected a share from 0 to 1"),
    ("dropout", ["8"], {"p": float("nan")}, r"dropout: p is nan, expected a share from 0 to 1"),
    ("group_norm", ["2x6x4"], {"groups": 4}, r"groups is 4, expected a divisor of the 6 channels of x"),
    (
        "avg_pool2d",
        ["1x1x8x8"],
        {"kernel": 3, "padding": 2},
        r"padding is 2, expected at most half of the kernel, 1",
    ),
    ("add", ["2x3", "4"], {}, r"add: 2x3 and 4 do not broadcast: sizes \[3, 4\] at dimension -1"),
    ("reduce_scatter", ["9"], {"ranks": 2}, r"x 9 does not split over 2 ranks"),
)


@pytest.mark.parametrize(("kind", "shapes", "settings", "said"), REFUSED)
def test_bad_input_says_what_to_write(kind, shapes, settings, said):
    with pytest.raises(RooflabError, match=said):
        by_hand.graph(kind, shapes, **settings)


@pytest.mark.parametrize(
    ("a", "b", "computed", "result"),
    [
        ("bf16", "int4", "bf16", "bf16"),  # weights are unpacked
        ("fp8", "bf16", "bf16", "bf16"),
        ("int8", "fp16", "fp16", "fp16"),
        ("fp32", "fp64", "fp64", "fp64"),
        ("int8", "int8", "int8", "int32"),
        ("fp8", "fp8", "fp8", "bf16"),
    ],
)
@pytest.mark.parametrize("kind", ["matmul", "linear"])
def test_products_of_mixed_operands_run_in_the_wider_format(kind, a, b, computed, result):
    graph = by_hand.graph(kind, [f"4x4:{a}", f"4x4:{b}"])
    (cost,) = costs(graph)
    assert [(one.engine, one.dtype, one.count) for one in cost.flop] == [("matrix", computed, 128)]
    assert graph.tensors[graph.ops[0].outputs[0]].dtype == result


def test_an_unknown_kind_is_an_unknown_name():
    with pytest.raises(UnknownNameError):
        by_hand.graph("frobnicate", ["2"])


def test_every_element_wise_function_of_the_formulas_can_be_written():
    left_out = {name for name in REAL if name not in by_hand.kinds()}
    # Derivatives take what their function saved; the others are operations of another kind by hand.
    assert {name for name in left_out if not name.endswith("_backward")} == {
        "max",
        "min",
        "view_as_complex",
        "view_as_real",
    }


def test_the_title_says_what_was_asked():
    assert by_hand.title("matmul", [(4, 8), "8x2:int8"], "bfloat16") == "matmul 4x8 8x2:int8 bf16"


def report(kind, *shapes, dtype="fp32", **settings):
    return counting.report(by_hand.graph(kind, shapes, dtype=dtype, **settings), kind)


def test_whole_numbers_stay_exact_beyond_a_float():
    """2·3,000,001³ has 66 bits."""
    huge = report("matmul", "3000001x3000001", "3000001x3000001")
    assert huge.flop == huge.matrix_flop == huge.flop_by[0].count == 2 * 3_000_001**3
    assert isinstance(huge.flop, int)


def test_a_kind_that_is_no_name_is_refused():
    with pytest.raises(RooflabError, match=r"^op: got 3 for the kind of operation, expected its name"):
        by_hand.graph(3, [(1, 2)])  # type: ignore[arg-type]
