"""What each rule about profiles tells to do, in words: a row for each rule."""

from __future__ import annotations

from typing import NamedTuple

from rooflab.types.advice import Effort, Price


class Words(NamedTuple):
    """What a rule tells to do: `Advice.change`, `effort`, `price` and `code`."""

    change: str
    effort: Effort = "line"
    price: Price = "nothing"
    code: str = ""


WORDS: dict[str, Words] = {
    "graph": Words(
        "Record the kernels as a CUDA graph, or compile the program (torch.compile, mode='reduce-overhead')",
        code='model = torch.compile(model, mode="reduce-overhead")',
    ),
    "synchronise-less": Words(
        "Let the host wait less often: no .item(), .cpu(), print or Python test of a tensor in the loop",
        code="total += loss.detach()      # read total.item() once, at the end",
    ),
    "prefetch-data": Words(
        "Prepare batches ahead, in processes of their own",
        code="DataLoader(…, num_workers=8, pin_memory=True, persistent_workers=True, prefetch_factor=4)",
    ),
    "overlap-copies": Words(
        "Copy from pinned memory, without blocking, on a stream of its own",
        code="x = x.pin_memory()\nwith torch.cuda.stream(side):\n    y = x.to('cuda', non_blocking=True)",
    ),
    "overlap-collectives": Words(
        "Exchange gradients in buckets while the backward pass goes on",
        code="DistributedDataParallel(model, bucket_cap_mb=25, gradient_as_bucket_view=True)",
    ),
    "coalesce": Words(
        "Let neighbouring threads take neighbouring words: another layout, or a tile in shared memory",
        effort="rewrite",
    ),
    "bank-conflicts": Words(
        "Pad the rows of the tile in shared memory by one word, or swizzle its columns",
        code="__shared__ float tile[32][33];",
    ),
    "tile-kernel": Words(
        "Tile the kernel, so that what is read again is still in a cache",
        effort="rewrite",
    ),
    "occupancy": Words(
        "Keep more warps in flight: more blocks, or fewer registers and less shared memory for each",
        effort="rewrite",
        code="__launch_bounds__(256, 4)   // lets the compiler use no more registers than 4 blocks leave",
    ),
    "tensor-cores": Words(
        "Multiply on the matrix engines: TF32, or bf16",
        price="numbers",
        code='torch.set_float32_matmul_precision("high")',
    ),
}
