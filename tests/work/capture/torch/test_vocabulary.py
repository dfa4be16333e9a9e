"""The vocabulary of PyTorch against PyTorch's own schemas and tags, and the loader's errors."""

import pytest

from rooflab.errors import FileError
from rooflab.work import vocabulary

WORDS = vocabulary.load("torch")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[op", r"^here: not TOML: "),
        ('[op]\n"a.b" = { k = 1 }', r"^here: op 'a.b' has no kind; expected the name of a formula$"),
        (
            '[op]\n"a.b" = { kind = "copy" }\n[[family]]\nkind = "copy"\nprefix = "a."\nops = "b"',
            r"'a.b' is named twice",
        ),
    ],
)
def test_a_wrong_vocabulary(text, message):
    with pytest.raises(FileError, match=message):
        vocabulary.read(text, "here")


def test_no_such_vocabulary():
    with pytest.raises(FileError, match=r"^work/vocab/nothing.toml: no such vocabulary$"):
        vocabulary.load("nothing")


def test_what_a_row_says():
    tensors = 'kind = "x", inputs = ["q"], outputs = [1], recipe = "r"'
    attrs = 'k = "$q.-1", p = "$p", m = "?m", f = "@"'
    entry = vocabulary.read(f'[op]\n"a.b" = {{ {tensors}, {attrs} }}', "here")["a.b"]
    assert (entry.kind, entry.inputs, entry.outputs, entry.recipe) == ("x", ("q",), (1,), "r")
    assert entry.attrs == {
        "k": vocabulary.Size("q", -1),
        "p": vocabulary.Argument("p"),
        "m": vocabulary.Given("m"),
        "f": "b",
    }


def test_every_kind_has_a_formula():
    from rooflab.work.formulas import kinds

    assert {entry.kind for entry in WORDS.values()} - {"opaque"} <= set(kinds())


def test_every_function_is_in_the_formulas_table():
    from rooflab.work.formulas.functions import REAL
    from rooflab.work.formulas.reduction import REDUCTIONS

    tables = {"pointwise": REAL, "reduction": REDUCTIONS}
    missing = [
        (name, entry.attrs["function"])
        for name, entry in WORDS.items()
        if entry.kind in tables and "function" in entry.attrs and entry.attrs["function"] not in tables[entry.kind]
    ]
    assert missing == []


def test_rows_name_arguments_that_exist():
    torch = pytest.importorskip("torch")
    from rooflab.work.capture.torch.recipes import RECIPES

    wrong = []
    for name, entry in WORDS.items():
        space, _, packet = name.partition(".")
        found = getattr(torch.ops, space)
        operator = getattr(found, packet, None) or getattr(found, f"{packet}_", None)
        if operator is None:  # of another build or version of PyTorch
            continue
        arguments = {one.name for o in operator.overloads() for one in getattr(operator, o)._schema.arguments}
        named = [
            *(entry.inputs or ()),
            *(one.name for one in entry.attrs.values() if isinstance(one, tuple) and hasattr(one, "name")),
        ]
        wrong += [(name, one) for one in named if one not in arguments]
        if entry.recipe is not None and entry.recipe not in RECIPES:
            wrong.append((name, entry.recipe))
    assert wrong == []


# Tagged "pointwise" by PyTorch and left out: orthogonal polynomials and rare special functions, whose FLOP depend
# on an argument's value or on a series; they are recorded by name and reported as uncounted.
RARE = (
    *("special_airy", "special_chebyshev", "special_hermite", "special_laguerre", "special_legendre"),
    *("special_modified_bessel", "special_scaled_modified", "special_shifted", "special_spherical"),
    *("special_bessel_y", "special_erfcx", "special_log_ndtr", "frexp", "gcd", "lcm", "mvlgamma", "__i", "__x"),
)


def test_every_pointwise_operator_of_torch_is_known():
    torch = pytest.importorskip("torch")
    aten, missing = torch.ops.aten, []
    for name in dir(aten):
        operator = getattr(aten, name)
        if not hasattr(operator, "overloads"):
            continue
        tagged = any(torch.Tag.pointwise in getattr(operator, one).tags for one in operator.overloads())
        plain = name if name.startswith("__") else name.rstrip("_")
        # rrelu is made of parts
        if tagged and plain != "rrelu" and f"aten.{plain}" not in WORDS and not plain.startswith(RARE):
            missing.append(name)
    assert missing == []
