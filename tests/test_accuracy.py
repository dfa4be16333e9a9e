"""benchmarks/accuracy.py on folders of measured times that it has not seen before."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GEMM = "device,kernel_source,gemm_dtype,m,n,k,latency_ms\n"


@pytest.fixture
def accuracy(tmp_path):
    """Runs the benchmark on the files given; their tables' cases by name, and what it says on stderr."""

    def run(*options: str, **files: str) -> tuple[dict[str, int], list[str]]:
        for name, text in files.items():
            stem, _, suffix = name.rpartition("_")
            (tmp_path / f"{stem}.{suffix}").write_text(text)
        command = [sys.executable, "benchmarks/accuracy.py", "--no-peers"]
        command += ["--truth", str(tmp_path), "--data", str(tmp_path), *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        lines = [line for line in done.stdout.splitlines() if "%" in line]
        return {line[:46].strip(): int(line[46:52]) for line in lines}, done.stderr.splitlines()

    return run


@pytest.mark.slow
def test_tables_are_known_by_their_columns_and_number_formats_apart(accuracy):
    tables, said = accuracy(
        l40s_products_csv=GEMM
        + "NVIDIA L40S,x,bfloat16,512,256,2048,0.01\nNVIDIA L40S,x,fp8_block,4096,4096,4096,0.5\n"
        + "NVIDIA L40S,x,int8_wo,8,4096,4096,0.03\n",
        mine_csv="device,op_name,nccl_dtype,num_gpus,message_size,latency\n"
        "NVIDIA B200,alltoall,half,8,4096,0.02\n",
        kv_csv="device,op_name,kv_cache_dtype,batch_size,isl,step,num_heads,num_key_value_heads,head_dim,latency_ms\n"
        "NVIDIA B200,generation_attention,fp8,8,1,2047,32,8,128,0.06\n",
    )
    assert {name: count for name, count in tables.items() if ": " not in name} == {
        "l40s_products": 1,
        "l40s_products, fp8_block": 1,
        "l40s_products, int8_wo": 1,
        "mine": 1,
        "kv": 1,
    }
    assert said == []


@pytest.mark.slow
def test_what_cannot_be_read_or_predicted_is_left_out_and_said_once_each(accuracy):
    tables, said = accuracy(
        gemm_csv=GEMM
        + "NVIDIA L40S,x,bfloat16,512,256,2048,0.01\nNVIDIA L40S,x,nvfp4,4096,4096,4096,0.5\n"
        + "NVIDIA L40S,x,w9a9,4096,4096,4096,0.5\nNVIDIA L40S,x,bfloat16,,256,2048,0.01\n"
        + "NVIDIA L40S,x,bfloat16,512,256,2048,\nNVIDIA L40S,x,bfloat16,0,256,2048,1\n"
        + "NVIDIA L40S,x,bfloat16,8,256,2048,-1\n"
        + "Foo 9,x,bfloat16,8,8,8,1\nFoo 9,x,bfloat16,8,8,9,1\n",
        nothing_csv="",
        other_csv="a,b\n1,2\n",
        heads_csv="device,op_name,batch_size,isl,num_heads,latency_ms\nNVIDIA B200,context_attention,1,2,3,4\n",
        broken_json="{",
        unheard_json='{"ops": [{"id": "x"}]}',
        b200_json='{"ops": [{"id": "x", "graph_ms": 1}], "models": [{"name": "x", "graph_ms": 1}]}',
    )
    assert tables["gemm"] == 1
    assert set(tables) <= {"gemm", "gemm: fit", "gemm: aside"}
    for text in (
        "gemm, nvfp4: 1 operation without a prediction",
        "gemm.csv: gemm_dtype 'w9a9': what it multiplies is not known",
        "gemm.csv: m: '', expected a number",
        "gemm.csv: latency_ms: '', expected a number",
        "gemm.csv: product 0x256x2048, expected sizes above 0",
        "gemm.csv: latency_ms: '-1', expected milliseconds above 0",
        "gemm.csv (2 cases): unknown machine 'Foo 9'",
        "nothing.csv: no rows",
        "other.csv: by its columns no table",
        "heads.csv: no column 'step'",
        "broken.json: no JSON",
        "unheard.json: no machine in the catalogue is called unheard",
        "left out: b200.json",
    ):
        assert any(text in line for line in said), text
    assert all(line.startswith("left out: ") for line in said)


@pytest.mark.slow
def test_a_third_of_each_table_is_set_aside_by_the_names_of_its_cases(accuracy):
    rows = [(m, n) for m in (8, 64, 512, 4096) for n in (256, 1024, 2048)]
    text = GEMM + "".join(f"NVIDIA L40S,x,bfloat16,{m},{n},2048,0.02\n" for m, n in rows)
    both, _ = accuracy(mine_csv=text)
    aside, _ = accuracy("--part", "aside", mine_csv=text)
    fit, _ = accuracy("--part", "fit", mine_csv=text)
    # By zlib.crc32 of "mine: 8x256x2048" and so on, modulo 3.
    expected = sum(zlib.crc32(f"mine: {m}x{n}x2048".encode()) % 3 == 0 for m, n in rows)
    assert both == {"mine": 12, "mine: aside": expected, "mine: fit": 12 - expected}
    assert aside == {"mine": expected}
    assert fit == {"mine": 12 - expected}


@pytest.mark.slow
def test_public_architectures_are_built_by_the_code_beside_their_times(accuracy):
    built = """import torch
def build(name, device, dtype):
    layer = torch.nn.Linear(512, 512, device=device, dtype=dtype)
    if name == "by keyword":
        return layer, {"input": torch.empty(64, 512, device=device, dtype=dtype)}
    if name == "missing":
        import no_such_library
    return layer, (torch.empty(64, 512, device=device, dtype=dtype),)
"""
    times = [
        {"name": name, "dtype": "bf16", "mode": "forward", "kernel_sum_ms": 0.004, "eager_ms": 0.02}
        for name in ("by keyword", "by place", "missing")
    ]
    found = {"meta": {"props": {"name": "NVIDIA L40S"}}, "models": times}
    tables, said = accuracy(public_models_py=built, public_models_l40s_json=json.dumps(found))
    assert tables["public models, kernels, l40s"] == 2
    assert tables["public models, eager, l40s"] == 2
    assert said == [
        "left out: public_models_l40s.json: missing: ModuleNotFoundError: No module named 'no_such_library'"
    ]
