"""Heads of data files: the keys before the first table, as reading the whole file gives them."""

from __future__ import annotations

import tomllib
from importlib import resources

import pytest

from rooflab.model.device import constants
from rooflab.model.engines import engine
from rooflab.model.file_heads import head, heads

TEXT = 'name = "it"\nyears = [2020, 2022]\n\n[one]\nvalue = 1\n\n[[many]]\nvalue = 2\n'


def test_the_head_ends_at_the_first_table():
    assert head(TEXT) == {"name": "it", "years": [2020, 2022]}
    assert head("[one]\nvalue = 1\n") == {}
    assert head('members = ["a [b]",\n  "c"]\n[one]\n') == {"members": ["a [b]", "c"]}


@pytest.mark.parametrize(("package", "folder"), [constants._DATA, (engine._FOLDER, "")])
def test_heads_are_what_the_whole_files_say_before_their_tables(package, folder):
    found = heads(package, folder)
    assert list(found) == sorted(found)
    assert len(found) > 5
    for name, said in found.items():
        where = resources.files(package)
        whole = tomllib.loads(((where / folder if folder else where) / f"{name}.toml").read_text("utf-8"))
        assert said == {key: value for key, value in whole.items() if not isinstance(value, dict)}


@pytest.mark.parametrize("family", constants.family_names())
def test_a_family_is_of_the_members_that_its_head_says(family):
    whole = constants.load_family(family)
    own = constants._head(heads(*constants._DATA)[family])
    assert (whole.members, whole.kind, whole.vendor, whole.years) == own
