"""ExecuTorch's XNNPACK delegate with 4-bit weights, on the same random model.

    python -m bench.xnnpack export model.pte         # some minutes and 8 GB of memory, once
    python -m bench.xnnpack run model.pte --prompt 512 --decode 128 --threads 2

The file is what ``executorch.extension.llm.export.export_llm`` makes of Qwen3-0.6B's shape:
linear weights of 4 bits in groups of 32 with activations quantized to 8 bits, one row at a
time (``8da4w``), the embedding of 4 bits, ExecuTorch's own attention over a cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.machine import CACHE, progress, run_child
from bench.peers import Lengths

if TYPE_CHECKING:
    from tests.gguf_models import ModelSpec

MODEL = CACHE / "xnnpack" / "qwen3-0.6b-8da4w.pte"
#: Tokens of a call, as many as llama.cpp computes together; positions of the cache.
MAX_TOKENS, CONTEXT = 512, 5120
VOCAB = 1000  # tokens are made up of the first so many
#: What a token reads of each weight: 4 bits, and a BF16 scale for each group of 32.
BYTES_PER_WEIGHT = 0.5 + 2 / 32


def exported() -> Path:
    """The program, made once."""
    if not MODEL.is_file():
        progress("exporting for XNNPACK (10 minutes or more, once)")
        MODEL.parent.mkdir(parents=True, exist_ok=True)
        run_child([sys.executable, "-m", "bench.xnnpack", "export", MODEL])
    return MODEL


def measure(program: Path, lengths: Lengths, threads: int) -> float:
    """Tokens per second, as :func:`run` finds them in a process of its own."""
    command: list[str | Path] = [sys.executable, "-m", "bench.xnnpack", "run", program]
    command += ["--prompt", str(lengths.prompt), "--decode", str(lengths.decode)]
    command += ["--depth", str(lengths.depth), "--threads", str(threads)]
    return float(run_child(command).out.splitlines()[-1])


def _parameters(spec: ModelSpec) -> dict[str, Any]:
    """The shape as ExecuTorch's own transformer is configured."""
    return {
        "dim": spec.hidden,
        "hidden_dim": spec.ffn,
        "n_layers": spec.n_layers,
        "n_heads": spec.n_heads,
        "n_kv_heads": spec.n_kv_heads,
        "head_dim": spec.head_dim,
        "vocab_size": spec.vocab,
        "norm_eps": spec.rms_eps,
        "rope_theta": spec.rope_base,
        "use_scaled_rope": False,
        "use_hf_rope": True,
        "use_qk_norm": True,
        "qk_norm_before_rope": True,
    }


def export(path: Path, spec: ModelSpec) -> None:
    """Write the program to ``path``. The weights are those of the GGUF file of ``spec``."""
    import torch
    from executorch.examples.models.qwen3.convert_weights import qwen_3_tune_to_meta

    from tests.gguf_models import weights

    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        shape, checkpoint = Path(folder, "params.json"), Path(folder, "checkpoint.pth")
        shape.write_text(json.dumps(_parameters(spec)))
        state = {name: torch.from_numpy(values) for name, values in weights(spec)}
        torch.save(qwen_3_tune_to_meta(state), checkpoint)
        del state
        options = {
            # Any class whose weights are not fetched; the shape is in the parameters.
            "base.model_class": "llama3",
            "base.params": shape,
            "base.checkpoint": checkpoint,
            "model.use_kv_cache": True,
            "model.use_sdpa_with_kv_cache": True,
            "model.dtype_override": "fp32",
            "quantization.qmode": "8da4w",
            "quantization.group_size": 32,
            "quantization.embedding_quantize": "'4,32'",
            "backend.xnnpack.enabled": True,
            "backend.xnnpack.extended_ops": True,
            "export.max_seq_length": 2 * MAX_TOKENS,
            "export.max_context_length": CONTEXT,
            "export.output_dir": folder,
            "export.output_name": path.name,
            "hydra.run.dir": folder,
        }
        command = [sys.executable, "-m", "executorch.extension.llm.export.export_llm"]
        command += [f"{name}={value}" for name, value in options.items()]
        subprocess.run(command, check=True, cwd=folder, stdout=sys.stderr)
        Path(folder, path.name).rename(path)


def run(program: Path, lengths: Lengths, threads: int) -> float:
    """Prefill or decode as llama-bench measures it: tokens per second after a warm-up."""
    import torch
    from executorch.extension.pybindings import portable_lib

    # Both register kernels that the program calls, and need portable_lib first.
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  # isort: skip
    from executorch.kernels import quantized  # noqa: F401  # isort: skip

    portable_lib._unsafe_reset_threadpool(threads)
    module = portable_lib._load_for_executorch(os.fspath(program))
    depth, count = lengths.depth, lengths.prompt or lengths.decode
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, VOCAB, (1, depth + count), generator=generator)
    positions = torch.arange(depth + count)

    def feed(start: int, end: int, step: int) -> float:
        begin = time.perf_counter()
        for at in range(start, end, step):
            part = slice(at, min(at + step, end))
            module.forward((tokens[:, part], positions[at : at + 1]))
        return time.perf_counter() - begin

    step = MAX_TOKENS if lengths.prompt else 1
    feed(0, depth, MAX_TOKENS)
    feed(depth, depth + min(count, step), step)
    seconds = [feed(depth, depth + count, step) for _ in range(lengths.repeats)]
    return statistics.fmean(count / s for s in seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["export", "run"])
    parser.add_argument("program", type=Path)
    parser.add_argument("--prompt", type=int, default=0, help="measure prefill of so many tokens")
    parser.add_argument("--decode", type=int, default=0, help="measure decode of so many")
    parser.add_argument("--depth", type=int, default=0, help="positions in the cache before")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.action == "export":
        from tests.gguf_models import QWEN3_0_6B

        export(args.program, QWEN3_0_6B)
        return
    if (args.prompt > 0) == (args.decode > 0):
        parser.error("expected one of --prompt and --decode")
    print(run(args.program, Lengths(args.prompt, args.decode, args.depth), args.threads))


if __name__ == "__main__":
    main()
