"""What a family takes from others: all from the one it is like, libraries' kernels from those it is near."""

from __future__ import annotations

import pytest

from rooflab.model.device.constants import load_family, of_libraries, with_near


def test_a_family_states_its_own_libraries_kernels_alone() -> None:
    assert "attention_fa2_prompts.matrix_factor" in of_libraries("ampere")
    assert "attention_vllm_fa_prompts.matrix_factor" not in of_libraries("ampere")  # inherited from Hopper
    assert not any(name.startswith("attention.") for name in of_libraries("ampere"))


def test_kernels_that_a_family_does_not_know_are_those_of_the_family_it_is_near() -> None:
    name = "attention_flashinfer_prompts.matrix_factor"
    assert load_family("ampere").values[name] == load_family("ada").values[name]


@pytest.mark.parametrize("name", ["attention_fa2_prompts.matrix_factor", "attention_triton_decode.join_s"])
def test_what_a_family_knows_stays(name: str) -> None:
    known = load_family("ampere").values
    assert with_near(known, ["ada"])[name] is known[name]
