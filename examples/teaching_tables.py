"""The numbers that people learn arithmetic intensity from, computed: `python examples/teaching_tables.py`.

Williams, Waterman, Patterson: "Roofline", CACM 52(4), 2009; NVIDIA: "GPU Performance Background" and "Matrix
Multiplication Background" user's guides; Dao et al.: "FlashAttention", 2022.
"""

import rooflab
from rooflab import Report


def show(title: str, rows: list[tuple[str, Report, str]]) -> None:
    print(title)
    for name, report, formula in rows:
        print(f"  {name:34} {report.intensity:9.4g} FLOP/byte   {formula}")
    print()


def element_wise() -> None:
    x = "1000000"
    rows = [
        ("vector add, fp32", rooflab.op("add", x), "1 FLOP, 2 reads + 1 write of 4 bytes: 1/12"),
        ("ReLU, fp32", rooflab.op("relu", x), "1 FLOP, 1 read + 1 write: 1/8"),
        ("softmax of 1024, fp32", rooflab.op("softmax", "1024x1024"), "5 FLOP per element: 5/8"),
        (
            "layer norm of 1024, fp32",
            rooflab.op("layer_norm", "1024x1024"),
            "8 FLOP per element, weight and bias: 1",
        ),
    ]
    show("Element by element: waiting for memory everywhere", rows)


def matrix_products() -> None:
    rows = []
    for n in (64, 256, 1024, 4096):
        report = rooflab.op("matmul", (n, n), (n, n))
        rows.append((f"matmul {n}³, fp32", report, f"2n³ / 3n²·4 = n/6 = {n / 6:.1f}"))
    show("Square matrices: intensity grows with size", rows)


def nvidia_guide() -> None:
    linear = "4096x1024"
    pool = {"kernel": 3, "stride": 1, "padding": "same"}
    rows = [
        ("linear 4096 × 1024, batch 512", rooflab.op("linear", "512x1024", linear, dtype="fp16"), "guide: 315"),
        ("linear 4096 × 1024, batch 1", rooflab.op("linear", "1x1024", linear, dtype="fp16"), "guide: 1"),
        ("max pooling 3 × 3", rooflab.op("max_pool2d", "1x64x56x56", dtype="fp16", **pool), "guide: 2.25"),
        ("ReLU", rooflab.op("relu", "1000000", dtype="fp16"), "guide: 0.25"),
        ("layer norm", rooflab.op("layer_norm", "512x1024", dtype="fp16"), "guide: under 10"),
        ("GEMM 8192 × 128 × 8192", rooflab.op("matmul", "8192x128", "128x8192", dtype="fp16"), "guide: 124.1"),
        ("GEMM 8192³", rooflab.op("matmul", "8192x8192", "8192x8192", dtype="fp16"), "guide: 2730.7"),
    ]
    show("NVIDIA's guides, fp16", rows)


def attention() -> None:
    print("Attention before and after Flash: B = 1, 16 heads of 64, fp16")
    print(f"  {'N':>6}  {'unfused':>10}  {'fused':>10}  FLOP/byte unfused, fused")
    for n in (512, 1024, 2048, 4096):
        unfused = rooflab.op("attention", (1, 16, n, 64), dtype="fp16", fused=False)
        fused = rooflab.op("attention", (1, 16, n, 64), dtype="fp16")
        numbers = f"{unfused.nbytes / 1e6:7.1f} MB  {fused.nbytes / 1e6:7.1f} MB"
        print(f"  {n:6}  {numbers}  {unfused.intensity:7.1f} {fused.intensity:7.1f}")
    print("  The scores' N² terms are gone: bytes double with N instead of growing fourfold.\n")


def fusion() -> None:
    """What bias, ReLU and dropout move after a product, pass by pass and in one (dropout's mask left out)."""
    x, bias, scale = "4096x4096", "4096", "1"
    product = rooflab.op("copy", x).write_bytes
    passes = [rooflab.op("add", x, bias), rooflab.op("relu", x), rooflab.op("mul", x, scale)]
    apart = sum(each.nbytes for each in passes)
    print("Linear, ReLU, dropout: traffic after the product, in sizes of its output")
    print(f"  three passes {apart / product:.0f} ×, one fused pass {passes[0].nbytes / product:.0f} ×")


if __name__ == "__main__":
    element_wise()
    matrix_products()
    nvidia_guide()
    attention()
    fusion()
