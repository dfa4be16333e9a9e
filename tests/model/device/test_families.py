"""What a family takes from others: all from the one it is like, libraries' kernels from those it is near."""

from __future__ import annotations

import msgspec
import pytest

from rooflab.model.device.constants import APART, load_family, moved, of_libraries, with_groups, with_near


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


@pytest.mark.parametrize("short", ["cache_share", "step_clocks"])
def test_a_librarys_product_keeps_its_ratio_to_cublas_on_a_family_that_takes_it(short: str) -> None:
    there, here = load_family("hopper"), load_family("blackwell")
    expected = there(f"matmul_cutlass_groups.{short}") * here(f"matmul.{short}") / there(f"matmul.{short}")
    assert here(f"matmul_cutlass_groups.{short}") == pytest.approx(expected)


@pytest.mark.parametrize("short", ["launch_s", "tile_clocks", "store_bytes_per_clock"])
def test_what_a_group_kernels_start_tiles_and_stores_take_is_its_own_everywhere(short: str) -> None:
    name = f"matmul_cutlass_groups.{short}"
    assert load_family("blackwell")(name) == load_family("hopper")(name)


def test_a_share_that_would_move_beyond_one_is_one() -> None:
    family = load_family("hopper").values
    less = {"matmul.memory_share": msgspec.structs.replace(family["matmul.memory_share"], value=0.5)}
    found = {"matmul_cutlass_groups.memory_share": family["matmul_cutlass_groups.memory_share"]}
    assert moved(found, less, family)["matmul_cutlass_groups.memory_share"].value == 1.0


def test_a_kernel_of_attention_that_another_family_tells_of_is_less_sure() -> None:
    family = load_family("hopper").values
    name = "attention_fa_decode.spread"
    found = moved({name: family[name], "attention.spread": family["attention.spread"]}, family, family)
    spread = family[name].value
    assert isinstance(spread, float)
    assert found[name].value == pytest.approx((spread**2 + APART["attention"] ** 2) ** 0.5)
    assert found["attention.spread"] is family["attention.spread"]


def test_what_an_own_topic_states_is_not_moved() -> None:
    family = load_family("ampere")
    stated = of_libraries("ampere")["matmul_cutlass_groups.cache_share"]
    assert family.values["matmul_cutlass_groups.cache_share"] is stated or (
        family("matmul_cutlass_groups.cache_share") == stated.value
    )


def test_a_kernel_for_groups_of_which_only_tiles_are_known_starts_and_finds_its_group_as_cutlass_s() -> None:
    family = load_family("hopper").values
    known = {name: each for name, each in family.items() if not name.startswith("matmul_block_groups.")}
    known["matmul_block_groups.tiles"] = family["matmul_block_groups.spread"]
    found = with_groups(known)
    for short in ("launch_s", "tile_clocks"):
        assert found[f"matmul_block_groups.{short}"] is family[f"matmul_cutlass_groups.{short}"]
    assert "matmul_block_groups.cache_share" not in found
    assert with_groups(family) == family


def test_generated_kernels_for_groups_start_as_products_do_and_take_tiles_as_cutlass_s() -> None:
    known = {name: each for name, each in load_family("hopper").values.items() if "cutlass_groups" in name}
    like = next(iter(known.values()))
    found = with_groups(known | {"matmul_trtllm_gen_groups.split_most": like})
    assert "matmul_trtllm_gen_groups.launch_s" not in found
    assert found["matmul_trtllm_gen_groups.tile_clocks"] == known["matmul_cutlass_groups.tile_clocks"]


def test_how_long_short_steps_wait_for_loads_is_their_own_everywhere() -> None:
    there, here = load_family("ampere").values, load_family("hopper").values
    name = "matmul_triton_default_groups.step_clocks"
    assert moved(there, there, here)[name] == there[name]
    tuned = "matmul_triton_groups.step_clocks"
    ratio = here["matmul.step_clocks"].value / there["matmul.step_clocks"].value  # type: ignore[operator]
    assert moved(there, there, here)[tuned].value == pytest.approx(there[tuned].value * ratio)  # type: ignore[operator]


def test_bars_of_what_is_taken_from_another_family_are_wider() -> None:
    there, here = load_family("hopper"), load_family("blackwell")
    between = APART["matmul"]
    for name in ("matmul_cutlass_groups.spread", "matmul_triton_groups.spread_fp8"):
        assert here(name) == pytest.approx((there(name) ** 2 + between**2) ** 0.5)
    # cuBLAS's own, and what the family states of a library, are as they are stated.
    assert here("matmul.spread") < between
    assert here.values["matmul_deepgemm.spread"] == of_libraries("blackwell")["matmul_deepgemm.spread"]
