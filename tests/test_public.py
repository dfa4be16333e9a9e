"""The public names: what they are, where they live, and what importing them costs."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.resources
import pkgutil
import sys

import pytest

import rooflab

EXTRAS = ("jax", "onnx", "tinygrad", "torch")
EVERYTHING = sorted(rooflab.__all__)
# What is heavy or not on every machine: none of it may be needed to import the package or to print help.
HEAVY = (
    "altair cuda jax jinja2 llvmlite msgspec numba numpy onnx psutil pynvml rich tinygrad tomli_w torch vl_convert"
)


def test_every_public_name_has_a_home():
    assert set(rooflab._HOMES) == set(rooflab.__all__)


def test_dir_lists_the_public_names_and_nothing_else():
    assert set(dir(rooflab)) == {*rooflab.__all__, "__version__", "core_streams", "lab", "streams"}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'rooflab' has no attribute 'meazure'"):
        _ = rooflab.meazure  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERYTHING)
def test_each_name_is_the_same_thing_twice_in_a_fresh_process(fresh, name):
    code = (
        f"import rooflab; first = rooflab.{name}; second = rooflab.{name}; from rooflab import {name} as third\n"
        "print(first is second is third, callable(first), first.__module__)"
    )
    home = getattr(rooflab, name).__module__  # where it is written, at or below where it is imported from
    assert home.startswith(rooflab._HOMES[name])
    assert fresh("-c", code).stdout.split() == ["True", "True", home]


def test_importing_the_package_imports_nothing_heavy(fresh):
    done = fresh("-c", f"import rooflab, sys; print(sorted(set({HEAVY.split()}) & set(sys.modules)))")
    assert done.stdout.strip() == "[]"


def test_detecting_the_machine_imports_nothing_heavy(fresh):
    code = (
        "from rooflab.machines.detect import detect; detect(gpus=False); import sys\n"
        f"print(sorted(set({[*HEAVY.split(), 'click']}) & set(sys.modules)))"
    )
    assert fresh("-c", code).stdout.strip() == "[]"


def test_calling_machine_twice_in_a_fresh_process_gives_the_same(fresh):
    code = "import rooflab; print(rooflab.machine('h200') == rooflab.machine('h200'), rooflab.machine.__name__)"
    assert fresh("-c", code).stdout.split() == ["True", "machine"]


def test_no_module_takes_a_public_functions_name():
    modules = [name for _, name, _ in pkgutil.walk_packages(rooflab.__path__, "rooflab.")]
    assert "rooflab.machines.catalog" in modules
    assert not {f"rooflab.{name}" for name in EVERYTHING} & set(modules)


def only_an_extra_is_missing(_):
    """Raise what is being handled, unless it is that an optional framework is not installed."""
    error = sys.exc_info()[1]
    if getattr(error, "name", None) not in EXTRAS:
        raise error  # type: ignore[misc]


def test_public_functions_stay_functions_after_every_module_is_imported():
    for _, name, _ in pkgutil.walk_packages(rooflab.__path__, "rooflab.", onerror=only_an_extra_is_missing):
        if not name.endswith("__main__"):
            try:
                importlib.import_module(name)
            except ModuleNotFoundError:
                only_an_extra_is_missing(name)
    assert callable(rooflab.machine)
    assert callable(rooflab.measure)
    assert rooflab.machine.__module__ == rooflab.measure.__module__ == "rooflab.story.machines"


def test_the_package_says_it_is_typed(root):
    assert (root / "src" / "rooflab" / "py.typed").is_file()
    # The installed package may be another copy.
    assert (importlib.resources.files("rooflab") / "py.typed").is_file()


def test_the_version_is_that_of_the_metadata():
    assert importlib.metadata.version("rooflab") == rooflab.__version__
