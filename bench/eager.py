"""PyTorch without any export: transformers' own module of a GGUF file's shape, a few tokens.

python -m bench.eager model.gguf --dtype bfloat16 --decode 8 --threads 2
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from bench.machine import run_child

DTYPES = ("float32", "bfloat16")


def measure(gguf: Path, dtype: str, decode: int, threads: int) -> float:
    """Tokens per second, as :func:`run` finds them in a process of its own."""
    command: list[str | Path] = [sys.executable, "-m", "bench.eager", gguf]
    command += ["--dtype", dtype, "--decode", str(decode), "--threads", str(threads)]
    return float(run_child(command).out.splitlines()[-1])


def run(gguf: Path, dtype: str, decode: int, threads: int) -> float:
    """Decode from an empty cache: tokens per second after a warm-up.

    Weights are zeros, which take as long as others: only the shape is read from the file.
    """
    import torch
    import transformers
    from transformers.initialization import no_init_weights

    torch.set_num_threads(threads)
    config = transformers.AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name)
    auto: Any = transformers.AutoModelForCausalLM
    with no_init_weights():
        model = auto.from_config(config, dtype=getattr(torch, dtype)).eval()
    with torch.inference_mode():
        for parameter in model.parameters():
            parameter.zero_()
        cache = transformers.DynamicCache(config=config)
        token = torch.zeros(1, 1, dtype=torch.int64)
        model(input_ids=token, past_key_values=cache)
        begin = time.perf_counter()
        for _ in range(decode):
            model(input_ids=token, past_key_values=cache)
        return decode / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("gguf", type=Path)
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--decode", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    print(run(args.gguf, args.dtype, args.decode, args.threads))


if __name__ == "__main__":
    main()
