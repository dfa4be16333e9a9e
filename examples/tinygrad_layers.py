"""A tinygrad program: `DEV=NULL rooflab analyze examples/tinygrad_layers.py:model --machine m1-pro`."""

from tinygrad import Tensor  # type: ignore[reportPrivateImportUsage]


def model(size: int = 2048) -> Tensor:
    """One product and a ReLU, which tinygrad fuses into one kernel."""
    return (Tensor.empty(size, size) @ Tensor.empty(size, size)).relu()
