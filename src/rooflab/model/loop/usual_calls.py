"""How long the maths library's functions usually take, in cycles: of a core whose own were not measured.

Medians of four measurements (`rooflab measure`) on a Zen 4 guest with glibc 2.36, arguments as its benchmark has
them. A function's work differs more between functions (log 10, cos 47) than between cores of these years.
"""

from __future__ import annotations

# of fp64: many beside each other, one after the other; of fp32 the same
_CYCLES = {
    "exp": (13.0, 33.0, 6.0, 29.0),
    "log": (10.0, 47.0, 7.0, 34.0),
    "sin": (33.0, 78.0, 11.0, 56.0),
    "cos": (47.0, 95.0, 8.0, 55.0),
    "pow": (36.0, 89.0, 15.0, 60.0),
    "tan": (60.0, 108.0, 50.0, 122.0),
    "tanh": (46.0, 138.0, 51.0, 155.0),
    "exp2": (8.0, 30.0, 6.0, 27.0),
    "log2": (11.0, 45.0, 7.0, 33.0),
    "log10": (20.0, 73.0, 16.0, 58.0),
    "atan": (30.0, 87.0, 23.0, 97.0),
    "sinh": (46.0, 128.0, 50.0, 145.0),
    "cosh": (20.0, 61.0, 18.0, 56.0),
    "hypot": (61.0, 111.0, 9.0, 33.0),
    "atan2": (54.0, 100.0, 63.0, 113.0),
    "expm1": (25.0, 103.0, 31.0, 123.0),
    "log1p": (24.0, 107.0, 31.0, 117.0),
    "erf": (49.0, 111.0, 49.0, 122.0),
    "erfc": (51.0, 110.0, 50.0, 120.0),
    "cbrt": (37.0, 97.0, 31.0, 83.0),
    "lgamma": (53.0, 100.0, 51.0, 104.0),
    "tgamma": (130.0, 194.0, 117.0, 185.0),
    "asinh": (77.0, 156.0, 70.0, 150.0),
    "fmod": (45.0, 41.0, 46.0, 42.0),
}
EACH: dict[str, float] = {}
LATENCY: dict[str, float] = {}
for _name, (_each64, _latency64, _each32, _latency32) in _CYCLES.items():
    EACH |= {f"call {_name} fp64": _each64, f"call {_name} fp32": _each32}
    LATENCY |= {f"call {_name} fp64": _latency64, f"call {_name} fp32": _latency32}
