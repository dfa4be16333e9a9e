"""A checkup: how counters, containers and libraries are judged; unknown is never ok; nothing private is said."""

from __future__ import annotations

import getpass
import platform
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import rooflab
from rooflab.errors import UnknownNameError
from rooflab.machines.checkup import counters, libraries, outside, trials
from rooflab.machines.checkup.examine import examine
from rooflab.machines.checkup.outside import Answer
from rooflab.machines.checkup.seen import Seen, look
from rooflab.machines.detect.conditions import Conditions, read_container
from rooflab.machines.detect.counters import Counters, Tried
from rooflab.machines.detect.files import Tree

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"
OPEN = Tried(opened=True, counted=1234)


def refused(name):
    return Tried(opened=False, error=name)


# What was seen, the status of the cores' counters, and a part of what is said.
CORES = (
    (Counters(paranoid=1, cycles=OPEN), Conditions(), "ok", "cycles open and count; perf_event_paranoid 1"),
    (Counters(paranoid=2, cycles=Tried(opened=True, counted=0)), Conditions(), "limited", "count nothing"),
    (Counters(paranoid=4, cycles=refused("EACCES")), Conditions(), "missing", "perf_event_paranoid is 4"),
    (Counters(paranoid=2, cycles=refused("EPERM")), Conditions(container="Docker"), "missing", "(Docker)"),
    (Counters(paranoid=2, cycles=refused("EPERM")), Conditions(), "missing", "security policy"),
    (Counters(paranoid=2, cycles=refused("ENOENT")), Conditions(), "missing", "no counters of this CPU (ENOENT)"),
    (Counters(cycles=refused("ENOSYS")), Conditions(container="gVisor"), "missing", "no perf_event_open (gVisor)"),
    (Counters(cycles=refused("EMFILE")), Conditions(), "unknown", "EMFILE"),
    (Counters(paranoid=2, cycles=None), Conditions(), "unknown", "not tried"),
)


@pytest.mark.parametrize(("counted", "conditions", "status", "said"), CORES)
def test_counters_are_judged_by_how_an_event_opens(counted, conditions, status, said):
    cores, _ = counters.grants(Seen(system="Linux", counters=counted, conditions=conditions))
    assert (cores.status, said in cores.found) == (status, True), cores.found
    if status != "ok":
        assert "rooflab run" in cores.means
        assert cores.todo


def test_memory_counters_that_are_listed_and_refused_say_which_setting():
    listed = Counters(paranoid=2, uncore_devices=("uncore_imc_0",), lists_devices=True, uncore=refused("EACCES"))
    _, memory = counters.grants(Seen(system="Linux", counters=listed))
    assert (memory.status, memory.todo) == ("limited", "sudo sysctl kernel.perf_event_paranoid=0")


def test_nothing_of_linux_is_guessed_elsewhere():
    assert [each.status for each in counters.grants(Seen(system="Darwin"))] == ["missing", "missing"]
    assert [each.status for each in counters.grants(Seen(system="FreeBSD"))] == ["unknown", "unknown"]


# Signs of containers, as files of a root folder.
CONTAINERS = (
    ({"proc/self/cgroup": "0::/kubepods/besteffort/pod1"}, "Kubernetes"),
    ({"proc/1/cgroup": "5:memory:/docker/0123abcd"}, "Docker"),
    ({".dockerenv": ""}, "Docker"),
    ({"run/.containerenv": ""}, "Podman"),
    ({"proc/sys/kernel/osrelease": "5.15.90.1-microsoft-standard-WSL2"}, "WSL"),
    ({"proc/self/cgroup": "0::/user.slice"}, None),
)


@pytest.mark.parametrize(("files", "kind"), CONTAINERS)
def test_the_kind_of_container(tmp_path, files, kind):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_container(Tree.at(tmp_path)) == kind


def test_an_empty_root_is_unknown_never_ok(tmp_path):
    found = examine(quick=True, root=tmp_path)
    of_root = [each for each in found.grants if each.topic in ("counters", "processor", "memory")]
    assert of_root
    assert {each.status for each in of_root} <= {"unknown", "missing", "limited"}
    assert look(tmp_path).load is None


def test_least_versions_are_those_of_the_project():
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for each in libraries.libraries():
        rows = project["dependencies"] if not each.extra else extras[each.extra]
        wanted = next(one for one in map(Requirement, rows) if one.name == each.distribution)
        said = {part.operator: part.version for part in wanted.specifier}
        assert (said.get(">=", ""), said.get("<", "")) == (each.least, each.below), each.name
    core = {Requirement(each).name for each in project["dependencies"]}
    tried = {each.distribution for each in libraries.libraries() if not each.extra}
    # msgspec's row stands for the small ones, Altair's for its renderer.
    assert core - tried == {"tomli-w", "click", "rich", "jinja2", "psutil", "altair"}


def test_a_library_that_is_broken_late_or_absent():
    torch = next(each for each in libraries.libraries() if each.name == "PyTorch")
    installed = {torch.distribution: "2.13.0"}
    known = {
        "broken": Answer(
            1, "", f'{trials.MARK}{{"works": false, "said": "OSError: libcudart.so.12", "told": {{}}}}\n'
        ),
        "late": Answer(None),
    }
    line = {
        name: next(g for g in libraries.grants(installed, {"PyTorch": answer}, 8.0) if g.name == "PyTorch")
        for name, answer in known.items()
    }
    assert line["broken"].status in ("limited", "missing")
    assert "libcudart.so.12" in line["broken"].found
    assert line["late"].status == "unknown"
    absent = next(g for g in libraries.grants({}, {}, 8.0) if g.name == "PyTorch")
    assert (absent.status, absent.stops) == ("missing", False)
    assert absent.todo == "python -m pip install 'rooflab[torch]'"
    numpy = next(g for g in libraries.grants({}, {}, 8.0) if g.name == "NumPy")
    assert numpy.stops  # without it rooflab cannot work


def test_programs_are_asked_side_by_side_and_ended_when_their_time_is_over():
    said = outside.ask(
        {
            "quick": [sys.executable, "-c", "print('here')"],
            "slow": [sys.executable, "-c", "import time; time.sleep(60)"],
            "none": ["/nowhere/at/all"],
        },
        within_s=3.0,
        at_once=3,
    )
    assert said["slow"].late
    assert "none" not in said
    assert said["quick"].works or said["quick"].late  # a loaded machine may not start Python in 3 s


def test_what_others_say_is_shown_without_folders_and_this_hosts_name():
    text = f"cannot open /home/someone/secret/lib.so on {platform.node()}\x1b[31m"
    shown = outside.without_names(text)
    assert "someone" not in shown
    assert "lib.so" in shown
    assert "\x1b" not in shown
    assert platform.node() not in shown or len(platform.node()) <= 2


def test_the_checkup_of_this_environment_says_nothing_private():
    found = rooflab.doctor(quick=True)
    assert found.works
    text = str(found.to_dict())
    home = str(Path.home())
    if len(home) > 5:
        assert home not in text
    user = getpass.getuser()
    if len(user) > 4:
        assert not re.search(rf"\b{re.escape(user)}\b", text)


def test_near_names_are_offered():
    with pytest.raises(UnknownNameError, match="hardware counters"):
        rooflab.doctor(quick=True).grant("hardware counter")


@pytest.mark.slow
def test_libraries_are_really_tried():
    found = rooflab.doctor()
    numpy = found.grant("NumPy")
    assert numpy.status in ("ok", "unknown", "limited")  # unknown where the machine was too busy to answer
    if numpy.status == "ok":
        assert "a product" in numpy.found
    assert found.took_s < 30
