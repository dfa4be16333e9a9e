"""Compiled functions kept as machine code: they do what numba's do, without numba; another question finds none."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rooflab.errors import RooflabError
from rooflab.loops import kept
from rooflab.loops.compiled import kept_code, numba_symbols, object_file, runs
from rooflab.loops.compiled.kept_code import Code, Text

HEAD = "import math\nimport numpy as np\nfrom numba import njit, prange\n\n@njit(cache=True{options})\n"
BODIES = {
    "scaled": "def scaled(a, s):\n    for i in range(len(a)):\n        a[i] = a[i] * s\n",
    "summed": "def summed(a, t):\n    x, y = t\n    for i in range(len(x)):\n        a[0] += x[i] + y[i]\n",
    "waved": "def waved(a, n):\n    for i in range(n):\n        a[i] = math.exp(a[i])\n    return a[0]\n",
    "flagged": "def flagged(a, b):\n    for i in range(a.shape[0]):\n        a[i, 0] = 1.0 if b else 2.0\n",
    "fresh": "def fresh(a):\n    return a + 1.0\n",
    "worked": "def worked(a):\n    b = np.zeros(len(a))\n    for i in range(len(a)):\n        b[i] = a[i]\n"
    "    for i in range(len(a)):\n        a[i] = b[len(a) - 1 - i]\n",
    "divided": "def divided(a, n):\n    for i in range(len(a)):\n        a[i] = 10 // n\n",
    "spread": "def spread(a):\n    for i in prange(len(a)):\n        a[i] = a[i] + i\n",
}


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """A store of its own, switched on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(kept.SWITCH, raising=False)
    return tmp_path


def text(name, options=', error_model="numpy"', body=None):
    return Text(f"of_{name}", HEAD.format(options=options) + (body or BODIES[name]), name)


def numbers(n=33):
    return np.random.default_rng(0).random(n)


GIVEN = [
    ("scaled", lambda: (numbers(), 3.0)),
    ("scaled", lambda: (numbers().astype("f4"), np.float32(0.5))),
    ("scaled", lambda: (np.arange(9), -2)),
    ("scaled", lambda: (np.arange(9, dtype="u1"), np.uint8(3))),
    ("scaled", lambda: (numbers() + 1j, 1 - 2j)),
    ("scaled", lambda: (numbers(40)[::3], 2.0)),
    ("scaled", lambda: (np.arange(4, dtype="u8"), np.uint64((1 << 63) + 5))),
    ("summed", lambda: (np.zeros(1), (numbers(), numbers()[::-1].copy()))),
    ("waved", lambda: (numbers(), 20)),
    ("flagged", lambda: (np.asfortranarray(np.zeros((3, 4))), True)),
    ("flagged", lambda: (np.zeros((3, 4)), False)),
    ("worked", lambda: (numbers(),)),
]


@pytest.mark.parametrize(("name", "args"), GIVEN)
def test_it_leaves_what_numba_leaves(name, args):
    code = kept_code.ready(text(name), args())
    ours, theirs = args(), args()
    code(*ours)
    text(name).compiled()(*theirs)
    assert isinstance(code, Code)
    assert [x.tolist() for x in ours if isinstance(x, np.ndarray)] == [
        x.tolist() for x in theirs if isinstance(x, np.ndarray)
    ]


def test_what_numba_has_in_its_own_cache_is_kept_too(store):
    first = kept_code.ready(text("scaled"), (numbers(), 3.0))
    for each in kept.folder().iterdir():
        each.unlink()
    # a module of that name loaded anew: numba finds its code on disk, and compiles nothing
    sys.modules.pop(next(each for each in sys.modules if each.startswith("rooflab_of_scaled_")))
    again = kept_code.ready(text("scaled"), (numbers(), 3.0))
    a, b = numbers(), numbers()
    first(a, 3.0)
    again(b, 3.0)
    assert isinstance(again, Code)
    assert np.array_equal(a, b)


def test_an_array_that_is_returned_is_let_go_of():
    code = kept_code.ready(text("fresh"), (np.zeros(1 << 17),))
    assert isinstance(code, Code)
    code(np.zeros(1 << 17))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    call = code.bound((np.zeros(1 << 17),))
    for _ in range(500):
        call()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # of 500 MB, in KiB


def test_a_function_that_returns_several_arrays_or_a_list_is_left_to_numba():
    two = text("two", body="def two(a):\n    return a + 1.0, a + 2.0\n")
    listed = text("listed", body="def listed(a):\n    return [a[0]]\n")
    assert not isinstance(kept_code.ready(two, (numbers(),)), Code)
    assert not isinstance(kept_code.ready(listed, (numbers(),)), Code)


def test_an_error_in_a_run_is_said():
    code = kept_code.ready(text("divided", ""), (np.zeros(3), 5))
    code(np.zeros(3), 5)
    assert isinstance(code, Code)
    with pytest.raises(RooflabError, match="divided: a run of it ended with an error"):
        code(np.zeros(3), 0)


def test_nothing_is_kept_where_the_switch_is_off(monkeypatch):
    monkeypatch.setenv(kept.SWITCH, "0")
    assert not isinstance(kept_code.ready(text("scaled"), (numbers(), 3.0)), Code)
    assert not list(kept.folder().iterdir())


def read_only(array):
    array.flags.writeable = False
    return array


def test_another_question_has_another_key(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    a = numbers()
    asked = [
        (text("scaled"), (a, 3.0)),
        (text("scaled", body=BODIES["scaled"].replace("* s", "+ s")), (a, 3.0)),
        (text("scaled", options=", fastmath=True"), (a, 3.0)),
        (text("waved"), (a, 3.0)),
        (text("scaled"), (a, 3)),
        (text("scaled"), (a, np.float32(3))),
        (text("scaled"), (a.astype("f4"), 3.0)),
        (text("scaled"), (a[::2], 3.0)),
        (text("scaled"), (a.reshape(3, 11), 3.0)),
        (text("scaled"), (np.asfortranarray(a.reshape(3, 11)), 3.0)),
        (text("scaled"), (read_only(a.copy()), 3.0)),
        (text("scaled"), ((a, a), 3.0)),
    ]
    keys = [kept_code._key(*each) for each in asked]
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    keys.append(kept_code._key(*asked[0]))
    (tmp_path / ".numba_config.yaml").write_text("opt: 0\n")
    keys.append(kept_code._key(*asked[0]))
    monkeypatch.setattr(kept, "_versions", lambda: "another processor")
    keys.append(kept_code._key(*asked[0]))
    assert None not in keys
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("value", [object(), [1.0], "text", None, 1 << 63, np.array([None])])
def test_arguments_of_other_types_are_left_to_numba(value):
    assert kept_code._key(text("scaled"), (numbers(), value)) is None


def test_contents_of_arrays_do_not_matter_to_code():
    assert kept_code._key(text("scaled"), (np.zeros(5), 3.0)) == kept_code._key(text("scaled"), (np.ones(9), 4.0))


def test_a_spoiled_entry_is_made_anew():
    kept_code.ready(text("scaled"), (numbers(), 3.0))
    (path,) = kept.folder().iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    a = np.ones(3)
    kept_code.ready(text("scaled"), (a, 3.0))(a, 3.0)
    assert a.tolist() == [3.0] * 3


def test_code_that_needs_what_is_not_here_is_left_to_numba():
    key = kept_code._key(text("scaled"), (numbers(), 3.0))
    kept_code.ready(text("scaled"), (numbers(), 3.0))
    parts = kept.find(key)
    kept.keep(key, {**parts, "needed": b"no_such_function_anywhere"})
    assert isinstance(kept_code._found(key, "scaled"), Code) is False
    kept.keep(key, {**parts, "needed": b"numba_no_such_helper"})
    assert kept_code._found(key, "scaled") is None


def test_symbols_are_those_that_a_function_reaches_not_those_of_its_wrapper():
    function = text("waved").compiled()
    parts = kept_code._parts(function, (numbers(), 20))
    read = object_file.read(parts["code"])
    assert parts["needed"].decode().split() == ["exp"]
    assert {"exp", "NRT_adapt_ndarray_from_python"} <= read.undefined
    assert read.reached("no such function") == frozenset()


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"MZ" + bytes(200), bytes(300)])
def test_what_is_no_object_file_is_none(content):
    assert object_file.read(content) is None


FRESH = """
import json, sys
import numpy as np
from rooflab.loops.compiled import kept_code, runs
stem, text, function = json.loads(sys.argv[1])
a = np.ones(1000)
code = kept_code.ready(kept_code.Text(stem, text, function), (a,) if function == "spread" else (a, 3.0))
if function == "spread":
    class Given:
        def copied(self):
            return (a.copy(),)
    assert [each.threads for each in runs.on_threads(code, Given(), True)] in ([], [2], [4, 2], [8, 4, 2])
    code(a)
else:
    code(a, 3.0)
print(json.dumps(["numba" in sys.modules, a.tolist()]))
"""


def in_a_fresh_process(*texts):
    """Whether numba was imported, and the array, of each text in a process of its own, all at once."""
    begun = [
        subprocess.Popen([sys.executable, "-c", FRESH, json.dumps(each)], stdout=subprocess.PIPE, text=True)
        for each in texts
    ]
    return [json.loads(each.communicate(timeout=300)[0]) for each in begun]


def test_a_fresh_process_runs_it_without_numba():
    kept_code.ready(text("scaled"), (np.ones(1000), 3.0))
    assert in_a_fresh_process(text("scaled")) == [[False, [3.0] * 1000]]


def test_threads_are_started_and_pinned_without_numba():
    options = ", parallel=True"
    code = kept_code.ready(text("spread", options), (np.ones(1000),))
    runs._pin()
    assert isinstance(code, Code)
    assert code.layer
    assert in_a_fresh_process(text("spread", options)) == [[False, [1.0 + i for i in range(1000)]]]


def test_two_processes_at_once_find_or_make_the_same():
    found = in_a_fresh_process(text("scaled"), text("scaled"))
    assert [each[1] for each in found] == [[3.0] * 1000] * 2
    assert in_a_fresh_process(text("scaled")) == [[False, [3.0] * 1000]]


def test_threads_are_as_many_as_numba_has():
    import numba

    said = "from rooflab.machines.bench.experiments import thread_teams as t; import sys\nprint(t.most())"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert int(done.stdout) == numba.config.NUMBA_DEFAULT_NUM_THREADS


def test_extension_modules_of_numba_are_found_where_they_lie():
    import numba

    place = Path(numba.__file__).parent
    assert Path(numba_symbols._module("numba._helperlib").__file__).parent == place
    with pytest.raises(ImportError, match="no_such"):
        numba_symbols._module("numba.no_such")
