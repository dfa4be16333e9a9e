"""llama.cpp's published rates on Apple's GPUs and consumer cards, as cases of `serving.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from measured import LeftOut
from serving_rows import ServingCase, step_of, table

import rooflab
from rooflab.errors import RooflabError
from rooflab.model.parallel.layout import Layout
from rooflab.work.llm import models

# Words of rows that the catalogue has otherwise.
_LOCAL = {
    "RTX 5090 32GB": "rtx-5090", "RTX 3090 24GB": "rtx-3090", "RTX 5080 16GB": "rtx-5080",
    "RTX 5070 Ti 16GB": "rtx-5070-ti", "RTX PRO 6000 96GB": "rtx-pro-6000-workstation", "DGX Spark GB10": "gb10",
    "M2 Ultra 76c 192GB": "m2-ultra-76-core", "Apple M2 Ultra": "m2-ultra-76-core",
    "M2 Ultra 192GB": "m2-ultra-76-core", "M4 Max 36GB": "m4-max-32-core", "M1 Max 64GB": "m1-max-32-core",
    "M1 Pro 32GB": "m1-pro", "Apple M1 Pro 16-core GPU": "m1-pro",
}  # fmt: skip


def card_of(hardware: str) -> str | None:
    """The machine that a row's words mean; None where the catalogue or the engine has none."""
    if "(Vulkan)" in hardware:
        return None
    try:
        return _LOCAL.get(hardware) or (rooflab.machine(hardware) and hardware)
    except RooflabError:
        return None


def local(path: Path) -> Iterator[ServingCase | LeftOut]:
    """`local_llamacpp_*`: tg, single tokens at batch 1; pp, prompts, by llama-bench.

    Flash attention is on from August 2025 on (-fa 1 in these discussions: 15396, 16578), off where a row says so
    and in the earlier ones on Apple's (4167). Prompts go in batches of 512 (n_ubatch), but for those two,
    whose commands say -ub 2048.
    """
    for row in table(path):
        card = card_of(row["hardware"])
        if card is None or ("tg" not in row["metric"] and "pp" not in row["metric"]):
            yield LeftOut(path.name, f"{row['hardware']}: not in the catalogue")
            continue
        august = "Aug 2025" in row["note"]
        flash = "FA on" in row["framework"] or august
        early = august or "Metal build 8e672ef" in row["framework"]  # before backends joined operations
        try:
            model = models.named(row["model"])
            word = row["dtype"].split()[0].lower()
            word, experts = ("q8_0", "mxfp4") if word == "mxfp4" else (word, word)
            # Before pull requests 15525 and 18842; on Metal the device has always sorted.
            sorting_s = 1.2e-9 if august and "Metal" not in row["framework"] else None
            step = step_of(model.name, card, "llama.cpp", Layout(), (word, word, experts, "fp16"), flash=flash,
                         joined=not early, sorting_s=sorting_s, mask_s=2e-9 if early else None)  # fmt: skip
        except RooflabError as error:
            yield LeftOut(path.name, str(error)[:90])
            continue
        found = re.match(r"(tg|pp)(\d+)", row["metric"])
        assert found is not None
        before, tokens = float(row["context"] or 0), float(found[2])
        case = ServingCase(
            table=f"llama.cpp, {found[1]}", group=f"{model.name} {card}", step=step, clients=1.0, prompt=tokens,
            answer=1.0, static=True,
        )  # fmt: skip
        value = float(row["value"])
        if found[1] == "pp":
            yield case._replace(ttft_s=tokens / value)
        else:
            yield case._replace(prompt=before, answer=tokens, tpot_s=1.0 / value)


def cores(path: Path) -> Iterator[ServingCase | LeftOut]:
    """`local_ikllama_cpu`: llama.cpp and its fork ik_llama.cpp on CPUs by threads, Llama 3.1 8B."""
    for row in table(path):
        card = card_of(row["hardware"])
        engine = "ik_llama.cpp" if "ik_llama" in row["framework"] else "llama.cpp"
        word = row["dtype"].split(" - ")[0].lower().replace(" ", "_")
        word += "_s" if "Small" in row["dtype"] else ""
        found = re.match(r"(tg|pp)(\d+)", row["metric"])
        if card is None or found is None:
            yield LeftOut(path.name, f"{row['hardware']}: not in the catalogue")
            continue
        try:
            words = (word, word, word, "fp16")
            # December 2024: only the fork widened blocks of every format once for several rows.
            threads = re.search(r"threads (\d+)", row["note"])
            step = step_of("llama-3.1-8b", card, engine, Layout(), words, flash=False, joined=False,
                         widens_once="ik_llama" in row["framework"],
                         threads=int(threads[1]) if threads else None)  # fmt: skip
        except RooflabError as error:
            yield LeftOut(path.name, str(error)[:90])
            continue
        tokens, value = float(found[2]), float(row["value"])
        case = ServingCase(
            table=f"{engine} on CPUs, {found[1]}", group=f"{row['hardware']} {engine} {word}", step=step,
            clients=1.0, prompt=tokens, answer=1.0, static=True,
        )  # fmt: skip
        if found[1] == "pp":
            yield case._replace(ttft_s=tokens / value)
        else:
            yield case._replace(prompt=0.0, answer=tokens, tpot_s=1.0 / value)


_OLLAMA = {"DeepSeek R1 14b": "qwen2.5-14b", "Llama 3.2:3b": "llama-3.2-3b", "Llama 3.1:70b": "llama-3.1-70b",
           "gpt-oss 20b": "gpt-oss-20b"}  # fmt: skip


def ollama(path: Path) -> Iterator[ServingCase | LeftOut]:
    """`local_geerling_ai`: single tokens of Ollama or llama.cpp after short prompts, cards in usual PCs."""
    for row in table(path):
        found = re.search(r"\((?:Nvidia|AMD) (?:RTX )?([^<()]+)\)", row["hardware"])
        plain = re.sub(r"^(RX|Radeon|Pro|AI) ?", "", found[1]) if found else ""
        card = next(
            (each for name in (f"RTX {plain}", found[1] if found else "", plain) if (each := card_of(name))), None
        ) or (card_of("gb10") if "GB10" in row["hardware"] else None)  # fmt: skip
        model = _OLLAMA.get(row["model"])
        if "Pi " in row["hardware"] or "Premier" in row["hardware"]:
            yield LeftOut(path.name, "a card behind one PCIe lane of a small host")
        elif card is None or model is None or "CPU" in row["framework"]:
            yield LeftOut(path.name, f"{row['hardware']}: not in the catalogue")
        else:
            word, experts = ("q8_0", "mxfp4") if model.startswith("gpt-oss") else ("q4_k_m", "q4_k_m")
            step = step_of(model, card, "llama.cpp", Layout(), (word, word, experts, "fp16"))
            yield ServingCase(
                table="Ollama", group=f"{model} {card}", step=step, clients=1.0, prompt=64.0, answer=256.0,
                static=True, tpot_s=1.0 / float(row["value"]),
            )  # fmt: skip
