"""Operations per element of each element-wise function, as a table.

(vector, special) per output element: "vector" for additions, multiplications and comparisons, "special"
for exp, log, sin, tanh, erf, sqrt, rsqrt and division. The expression that was counted stands beside the
row where it is not the name itself. Logical functions, selections and casts are not floating-point
operations: 0, and their bytes count.
"""

from __future__ import annotations

_NO_ARITHMETIC = (  # moves and logic
    "identity positive where masked_fill fill logical_and logical_or logical_xor logical_not bitwise_and"
    " bitwise_or bitwise_xor bitwise_not shift_left shift_right tril triu real imag view_as_real view_as_complex"
    " complex conj cast signbit"
)
_ONE_OPERATION = (  # an addition, multiplication or comparison
    "add sub rsub mul neg abs sign sgn square max min maximum minimum fmax fmin relu threshold"
    " floor ceil round trunc eq ne lt le gt ge isnan isinf isfinite isposinf isneginf heaviside copysign"
    " nextafter threshold_backward relu_backward deg2rad rad2deg ldexp"
)
_ONE_SPECIAL = (
    "div reciprocal sqrt rsqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh"
    " cosh tanh asinh acosh atanh erf erfc erfinv gamma lgamma digamma polygamma i0 i0e i1 i1e ndtr ndtri"
    " bessel_j0 bessel_j1 gammainc gammaincc zeta"
)
_NO_ARITHMETIC_COMPLEX = (
    "identity positive where masked_fill fill real imag view_as_real view_as_complex complex cast tril triu"
)

REAL: dict[str, tuple[int, int]] = {
    **dict.fromkeys(_NO_ARITHMETIC.split(), (0, 0)),
    **dict.fromkeys(_ONE_OPERATION.split(), (1, 0)),
    **dict.fromkeys(_ONE_SPECIAL.split(), (0, 1)),
    # arithmetic
    "add_scaled": (2, 0),  # a + alpha·b
    "fma": (2, 0),  # a·b + c
    "frac": (2, 0),  # x − trunc(x)
    "clamp": (2, 0),  # min(max(x, low), high)
    "lerp": (3, 0),  # a + w·(b − a)
    "addcmul": (3, 0),  # a + value·b·c
    "addcdiv": (2, 1),  # a + value·b/c
    "floor_divide": (1, 1),  # floor(a/b)
    "remainder": (3, 1),  # a − b·floor(a/b)
    "fmod": (3, 1),  # a − b·trunc(a/b)
    "cube": (2, 0),  # x·x·x
    "pow": (1, 2),  # exp(y·log(x))
    "float_power": (1, 2),
    "hypot": (3, 1),  # sqrt(a² + b²)
    "atan2": (0, 2),  # atan(a/b)
    "angle": (0, 2),
    "xlogy": (1, 1),  # x·log(y)
    "xlog1py": (2, 1),
    "entr": (2, 1),  # −x·log(x)
    "sinc": (1, 2),  # sin(πx)/(πx)
    "logit": (1, 2),  # log(x/(1 − x))
    "logaddexp": (6, 2),  # max(a, b) + log(1 + exp(−|a − b|))
    "logaddexp2": (6, 2),
    "nan_to_num": (3, 0),  # three comparisons
    "polar": (2, 2),  # r·cos(t), r·sin(t)
    "sincos": (0, 2),
    "isclose": (5, 0),  # |a − b| <= atol + rtol·|b|
    "quantize": (4, 0),  # clamp(round(x·(1/s)) + z, low, high): multiply, round, two comparisons
    "dequantize": (2, 0),  # (q − z)·s
    "fake_quantize": (6, 0),
    # activations
    "relu6": (2, 0),
    "hardtanh": (2, 0),
    "leaky_relu": (2, 0),  # x > 0 ? x : a·x
    "prelu": (2, 0),
    "rrelu": (2, 0),
    "relu_squared": (2, 0),
    "sigmoid": (2, 2),  # 1/(1 + exp(−x)): negation, addition; exp, division
    "silu": (2, 2),  # x/(1 + exp(−x))
    "gelu": (4, 1),  # 0.5·x·(1 + erf(x·√½)): 3 multiplications, 1 addition, erf
    "gelu_tanh": (8, 1),  # 0.5·x·(1 + tanh(c·(x + k·x·x·x)))
    "quick_gelu": (3, 2),  # x·sigmoid(1.702·x), as x/(1 + exp(−1.702·x))
    "elu": (3, 1),  # x > 0 ? x : a·(exp(x) − 1)
    "selu": (4, 1),
    "celu": (4, 1),
    "softplus": (1, 2),  # log(1 + exp(x))
    "mish": (2, 3),  # x·tanh(log(1 + exp(x)))
    "softsign": (2, 1),  # x/(1 + |x|)
    "log_sigmoid": (5, 2),  # min(x, 0) − log(1 + exp(−|x|))
    "tanhshrink": (1, 1),
    "hardshrink": (2, 0),
    "softshrink": (3, 0),
    "hardswish": (5, 0),  # x·min(max(x + 3, 0), 6)·⅙
    "hardsigmoid": (4, 0),
    "glu": (3, 2),  # a·sigmoid(b)
    "silu_mul": (3, 2),  # silu(a)·b
    "gelu_mul": (5, 1),
    "gelu_tanh_mul": (9, 1),
    # derivatives, from what the framework saved
    "sigmoid_backward": (3, 0),  # g·(1 − y)·y
    "tanh_backward": (3, 0),  # g·(1 − y·y)
    "silu_backward": (7, 2),  # s = sigmoid(x); g·s·(1 + x·(1 − s))
    "gelu_backward": (9, 2),  # g·(Φ(x) + x·φ(x)): 3 and erf, 3 and exp, 3
    "gelu_tanh_backward": (17, 1),
    "leaky_relu_backward": (2, 0),
    "hardtanh_backward": (3, 0),
    "hardswish_backward": (5, 0),
    "hardsigmoid_backward": (3, 0),
    "hardshrink_backward": (2, 0),
    "softshrink_backward": (2, 0),
    "elu_backward": (3, 1),  # x > 0 ? g : g·a·exp(x)
    "softplus_backward": (2, 2),  # g·z/(z + 1), z = exp(x)
    "mish_backward": (8, 5),
    "log_sigmoid_backward": (5, 2),
    "softsign_backward": (3, 1),
    "prelu_backward": (3, 0),  # x > 0 ? g : g·w, and g·x for w
    "rrelu_backward": (1, 0),
    "glu_backward": (4, 1),  # per element of the gradient of both halves
    "logit_backward": (2, 1),
    "dropout_backward": (2, 0),  # g·mask·scale
}

COMPLEX: dict[str, tuple[int, int]] = {
    **dict.fromkeys(_NO_ARITHMETIC_COMPLEX.split(), (0, 0)),
    **dict.fromkeys(("add", "sub", "rsub", "neg", "eq", "ne", "isnan", "isinf", "isfinite"), (2, 0)),
    "conj": (1, 0),
    "mul": (6, 0),  # ac − bd, ad + bc: 4 multiplications, 2 additions
    "square": (5, 0),  # a·a − b·b, 2·a·b
    "add_scaled": (8, 0),
    "fma": (8, 0),
    "addcmul": (14, 0),
    "div": (9, 2),  # (a + bi)·(c − di): 6; c² + d²: 3; two divisions
    "reciprocal": (4, 2),
    "abs": (3, 1),  # sqrt(a² + b²)
    "angle": (0, 2),
    "sgn": (3, 3),
    "exp": (2, 3),  # exp(a)·(cos(b) + i·sin(b))
    "log": (3, 4),  # log(sqrt(a² + b²)) + i·atan2(b, a)
    **dict.fromkeys(("log2", "log10", "log1p"), (5, 4)),  # and a multiplication of each half
    "sqrt": (7, 3),  # sqrt((|z| ± a)/2): |z| 3 and a root; ±, halving and a root of each; the sign
    "rsqrt": (11, 5),
    "pow": (11, 7),  # exp(y·log(z))
    "polar": (2, 2),
    **dict.fromkeys(("sin", "cos", "sinh", "cosh"), (2, 4)),  # sin(a)·cosh(b), cos(a)·sinh(b)
    **dict.fromkeys(("tan", "tanh"), (14, 6)),  # sine by cosine, their four functions shared
    "sigmoid": (9, 5),  # 1/(1 + exp(−z))
    "lerp": (10, 0),
    "addcdiv": (17, 2),
}
