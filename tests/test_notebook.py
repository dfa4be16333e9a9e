"""`%rooflab` and `%%rooflab`: what they time and count, what stays as it was, and errors of one line."""

from __future__ import annotations

import msgspec
import pytest

import rooflab
from rooflab.machines.detect import detect, granted_cores
from rooflab.timing import time_call
from rooflab.types.machine import Source

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

_MOST_BYTES = 300_000


class Shell:
    """What the magic needs of IPython."""

    def __init__(self):
        self.user_ns = {
            "torch": torch,
            "net": torch.nn.Linear(32, 16),
            "x": torch.ones(8, 32),
            "a": np.ones(10),
        }
        self.magics = {}

    def register_magic_function(self, function, kind, name):
        self.magics[kind, name] = function


@pytest.fixture
def shell():
    return Shell()


@pytest.fixture
def magic(shell):
    rooflab.load_ipython_extension(shell)
    return shell.magics["line_cell", "rooflab"]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """The file of a machine that may be this one."""
    host = detect(gpus=False)
    machine = msgspec.structs.replace(
        rooflab.machine("epyc-9654"),
        name=host.name,
        aliases=(),
        environment={},
        compute_units=len(granted_cores(host)),
        source=Source("measured", "a test"),
    )
    path = tmp_path_factory.mktemp("machines") / "the machine.json"
    machine.save(path)
    return path


def test_an_expression_is_counted_and_timed_under_the_roofs(magic, here):
    report = magic(f"-m '{here}' net(x)")
    assert [row.op.name for row in report.rows] == ["aten.t", "aten.addmm"]
    assert report.name == "net(x)"
    assert report.measured_s > 0
    assert report.own_times[0].verdict != "unknown"
    assert len(report._repr_html_().encode()) < _MOST_BYTES


def test_a_machine_is_kept_and_another_takes_its_place(magic, here, capsys):
    assert magic(f"--machine='{here}'") is None
    assert "from now on under the roofs of" in capsys.readouterr().out
    assert magic("x * 2").machine.name == rooflab.machine(here).name
    assert magic("-m epyc-7763 x * 2").machine.name == "AMD EPYC 7763"
    assert magic("x * 2").machine.name == "AMD EPYC 7763"


def test_all_that_is_timed_is_counted(magic):
    # What is computed on the way to a call takes its time too.
    names = [row.op.name for row in magic("net(x * 2).sum()").rows]
    assert names == ["aten.mul", "aten.t", "aten.addmm", "aten.sum"]
    assert [row.op.name for row in magic("x.matmul(x.T)").rows][-1] == "aten.mm"


def test_a_cell_is_counted_and_leaves_names_as_they_were(magic, shell):
    report = magic("", "y = torch.relu(x)\nx = x + 1\ny @ y.T\n")
    assert "aten.relu" in [row.op.name for row in report.rows]
    assert report.measured_s > 0
    assert "y" not in shell.user_ns
    assert torch.equal(shell.user_ns["x"], torch.ones(8, 32))


def test_jax_outside_of_jit_is_predicted_call_by_call(magic, shell, here):
    jax = pytest.importorskip("jax")
    shell.user_ns |= {"j": jax.numpy.ones((16, 16)), "f": jax.jit(lambda x: x @ x), "g": lambda x: x @ x}
    assert magic(f"-m '{here}' f(j)").setting.mode == "compiled"
    assert magic("g(j)").setting.mode == "eager"
    assert magic("j @ j").setting.mode == "eager"
    assert magic("j @ j").measured_s > 0


def test_a_large_notebook_is_no_part_of_a_cells_time(magic, shell, capsys):
    shell.user_ns |= {f"name{number}": number for number in range(20_000)}  # copied in 100 µs and more
    # What runs beside may slow one of a pair: one pair of three is left alone.
    pairs = [
        (magic("", "y = x * 2\ny\n").measured_s, time_call(lambda: dict(shell.user_ns)).median_s) for _ in range(3)
    ]
    assert any(cell_s < copying_s / 2 for cell_s, copying_s in pairs)
    assert torch.equal(shell.user_ns["x"], torch.ones(8, 32))


def test_a_time_of_this_cpu_is_not_one_of_another_machine(magic, capsys):
    report = magic("-m h200-sxm net(x)")
    assert report.measured_s is None
    assert "that is the CPU's time, not one of NVIDIA H200" in capsys.readouterr().err


def test_what_nobody_can_count_is_timed_alone(magic, capsys):
    assert magic("len([1, 2])") is None
    err = capsys.readouterr().err
    assert "a call (median" in err
    assert "not counted: it names neither arrays of NumPy nor tensors" in err


def test_one_operation_of_numpy_is_counted_and_timed(magic, shell, here):
    shell.user_ns |= {"np": np, "b": np.ones((64, 32)), "c": np.ones((32, 16))}
    report = magic(f"-m '{here}' b @ c")
    assert report.flop == 2 * 64 * 32 * 16
    assert {one.dtype for one in report.flop_by} == {"fp64"}
    assert report.measured_s > 0
    assert report.own_times[0].verdict != "unknown"
    assert report.name == "b @ c"
    assert magic("np.exp(a)").rows[0].op.name == "numpy.exp"
    assert magic("a + a").nbytes == 2 * 8 * 10  # a is read once


def test_several_operations_of_numpy_are_each_a_row(magic, shell):
    shell.user_ns |= {"np": np, "b": np.eye(10)}
    report = magic("np.linalg.inv(b.T @ b) + b[::2].sum()")
    assert [row.op.name for row in report.rows] == [
        *("numpy.matmul", "numpy.linalg.inv", "numpy.add.reduce", "numpy.add"),
    ]
    assert magic("", "c = b * 2\nc + 1\n").flop == 200


@pytest.mark.parametrize(
    ("line", "cell", "says"),
    [
        ("", None, "no expression, expected %rooflab"),
        ("-m", None, "expected a machine after it"),
        ("-m nonesuch x", None, "unknown machine"),
        ("--mashine h200-sxm x", None, "did you mean --machine"),
        ("y = 3", None, "statements go below %%rooflab"),
        ("nope(x)", None, "NameError: name 'nope'"),
        ("net(x, x)", None, "TypeError"),
        ("1 / 0", None, "ZeroDivisionError"),
        ("", "y = (\n", "SyntaxError, line 1"),
        ("x", "y = 1\n", "expected the code below that line"),
        ("", "raise ValueError('two\\nlines')\n", "ValueError: two"),
    ],
)
def test_an_error_is_one_line(magic, capsys, line, cell, says):
    assert magic(line, cell) is None
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.startswith("rooflab: ")
    assert err.count("\n") == 1


def test_code_in_a_name_is_escaped(magic, here):
    report = magic(f"-m '{here}' (x < 1, '<script>alert(1)</script>')[0]")
    assert "<script>alert(1)" not in report._repr_html_()


def test_ipython_loads_it():
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "rooflab")
    assert "rooflab" in shell.magics_manager.magics["line"]
    assert "rooflab" in shell.magics_manager.magics["cell"]
