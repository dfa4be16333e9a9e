"""A JAX function to analyze: `rooflab analyze examples/jax_layers.py:model --batch 64 --machine h200-sxm`."""

from collections.abc import Callable

import jax
import jax.numpy as jnp


def model(batch: int = 8) -> tuple[Callable, tuple[jax.ShapeDtypeStruct, ...]]:
    """A function and its arguments; a `ShapeDtypeStruct` stands for an array without memory."""

    def layers(x: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
        return jax.nn.gelu(x @ up) @ down

    shapes = ((batch, 1024), (1024, 4096), (4096, 1024))
    return layers, tuple(jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in shapes)
