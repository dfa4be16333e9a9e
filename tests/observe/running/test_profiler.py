"""A framework's profiler set on an unedited program: which part is recorded, and that it ends as it would.

Most of these run a made-up `torch`, whose profiler writes the steps that it saw: the real one is slow to import.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.observe.running import profiler
from rooflab.observe.running.command import execute

# What `armed` uses of PyTorch, and no more.
TORCH = {
    "torch/__init__.py": """
        from torch import optim
        class cuda:
            is_initialized = staticmethod(lambda: False)
        class backends:
            class cuda:
                is_built = staticmethod(lambda: False)
    """,
    "torch/optim/__init__.py": "from torch.optim.optimizer import Optimizer\n",
    "torch/optim/optimizer.py": """
        hooks = []
        register_optimizer_step_post_hook = hooks.append
        class Optimizer:
            def __init__(self, parameters): pass
            def step(self):
                for hook in hooks: hook(self, (), {})
    """,
    "torch/profiler.py": """
        import json
        class ProfilerAction: RECORD = 1
        class ProfilerActivity: CPU, CUDA = 1, 2
        class profile:
            def __init__(self, activities, schedule, record_shapes): self.steps, self.on = 0, None
            def start(self): self.on = True
            def step(self): self.steps += 1
            def stop(self): self.on = False
            def export_chrome_trace(self, path):
                assert self.on is False
                open(path, "w").write(json.dumps({"steps": self.steps}))
    """,
}


@pytest.fixture
def frameworks(tmp_path, monkeypatch):
    """A folder on PYTHONPATH with the made-up torch."""
    folder = tmp_path / "site"
    for name, text in TORCH.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def ran(program, **settings):
    """How `program` ended, and what was left of it: what the profiler wrote, and the sentence."""
    with profiler.Session(**settings) as session:
        ended = execute([sys.executable, "-c", textwrap.dedent(program)], env=session.env)
        found = [(one.file and json.loads(one.file.read_text()), one.sentence) for one in session.recorded()]
    return ended, found


TRAINS = """
    import torch, os, sys, signal
    optimizer = torch.optim.Optimizer([])
    for _ in range({steps}): optimizer.step()
    {then}
"""


@pytest.mark.parametrize(
    ("then", "code"),
    [
        ("pass", 0),
        ("sys.exit(7)", 7),
        ("os._exit(5)", 5),
        ("raise ValueError", 1),
        ("os.kill(os.getpid(), signal.SIGTERM)", 128 + signal.SIGTERM),
    ],
)
def test_steps_after_the_first_are_recorded_however_it_ends(frameworks, then, code):
    ended, ((written, sentence),) = ran(TRAINS.format(steps=3, then=then))
    assert ended.exit_code == code
    assert written == {"steps": 2}  # of three, the first is warm-up
    assert "from optimizer step 2 on" in sentence


def test_no_more_steps_than_asked_for(frameworks):
    _, ((written, sentence),) = ran(TRAINS.format(steps=50, then="pass"), steps=4)
    assert written == {"steps": 3}  # marks between four steps
    assert "4 steps" in sentence


def test_too_few_steps_are_said(frameworks):
    _, ((written, sentence),) = ran(TRAINS.format(steps=1, then="pass"))
    assert written is None
    assert "took 1 steps, and the first that is recorded is step 2" in sentence


def test_without_an_optimizer_it_is_recorded_from_the_import_on(frameworks):
    _, ((written, sentence),) = ran("import torch")
    assert written == {"steps": 0}
    assert "from the import of torch on" in sentence


def test_time_ends_a_recording_between_two_instructions(frameworks):
    program = """
        import torch, time
        end = time.time() + 1
        while time.time() < end: pass
    """
    _, ((_, sentence),) = ran(program, seconds=0.1)
    assert "its time was up" in sentence
    assert float(sentence.split(" for ")[1].split()[0]) < 900  # ms, of more than a second


def test_killed_is_said(frameworks):
    ended, ((written, sentence),) = ran("import torch, os; os.kill(os.getpid(), 9)")
    assert (ended.signal, written) == ("SIGKILL", None)
    assert "killed" in sentence


def test_forks_are_not_profiled_and_processes_of_their_own_are(frameworks):
    program = """
        import torch, os, subprocess, sys
        if os.fork() == 0: os._exit(0)
        os.wait()
        subprocess.run([sys.executable, "-c", "import torch"], check=True)
    """
    _, found = ran(program)
    assert len(found) == 2


def test_the_programs_own_sitecustomize_is_kept(frameworks, tmp_path):
    (frameworks / "sitecustomize.py").write_text("import sys; sys.own = 1\n")
    ended, found = ran("import sys; assert sys.own == 1; assert not any('rooflab-profile' in p for p in sys.path)")
    assert ended.exit_code == 0
    assert found == []


def test_what_goes_wrong_in_the_profiler_leaves_the_program_alone(frameworks):
    (frameworks / "torch" / "profiler.py").write_text("raise RuntimeError('broken')\n")
    ended, ((written, sentence),) = ran("import torch")
    assert (ended.exit_code, written) == (0, None)
    assert "RuntimeError: broken" in sentence


def test_a_program_without_a_framework_is_told_what_to_do():
    run = rooflab.run([sys.executable, "-c", "pass"], profile=True)
    assert "no Python that it started imported torch or jax" in run.lacks[0]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"runs": 2}, "a profile is of one run"),
        ({"profile_steps": 0}, "profile_steps: got 0"),
        ({"profile_s": -1.0}, "profile_s: got -1"),
        ({"traces": "no/such"}, "no/such: no such folder"),
    ],
)
def test_bad_input_is_said_before_anything_runs(given, text, tmp_path):
    with pytest.raises(RooflabError, match=text):
        rooflab.run(["touch", str(tmp_path / "made")], profile=True, **given)
    assert not (tmp_path / "made").exists()


@pytest.mark.slow
def test_a_real_training_program(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(
        "import torch, sys\n"
        "m = torch.nn.Linear(64, 32); o = torch.optim.SGD(m.parameters(), lr=0.1)\n"
        "for _ in range(4):\n"
        "    m(torch.randn(16, 64)).sum().backward(); o.step(); o.zero_grad()\n"
        "sys.exit(3)\n"
    )
    words = [
        sys.executable,
        "-m",
        "rooflab",
        "run",
        "--profile",
        "--traces",
        ".",
        "-o",
        "run.json",
        "-o",
        "run.html",
    ]
    done = subprocess.run(
        [*words, "--", sys.executable, "train.py"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "from optimizer step 2 on" in done.stderr
    run = rooflab.load(tmp_path / "run.json")
    names = {row.name for row in run.profile.rows}
    # x W^T + b forward; dW = dy^T x backward (x needs no gradient)
    assert {"aten.addmm", "aten.mm"} <= names
    assert next(row for row in run.profile.rows if row.name == "aten.addmm").executions == 3
    assert list(tmp_path.glob("torch-*.pt.trace.json"))


@pytest.mark.slow
def test_a_real_jax_program(tmp_path):
    pytest.importorskip("jax")
    (tmp_path / "work.py").write_text(
        "import jax, jax.numpy as jnp\n"
        "f = jax.jit(lambda x: jnp.tanh(x @ x).sum())\n"
        "for _ in range(5): f(jnp.ones((256, 256))).block_until_ready()\n"
    )
    run = rooflab.run([sys.executable, str(tmp_path / "work.py")], profile=True)
    assert any("(jax) was profiled from the first compiled function on" in note for note in run.notes)
    assert run.profile.rows
