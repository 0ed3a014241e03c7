"""Exports Qwen3-0.6B: from its .gguf to a .pte that holds the graph and no weights.

usage: python runner/export_qwen3_q8.py [--gguf FILE] [--output FILE]

By default reads qwen3/Qwen3-0.6B-Q8_0.gguf and writes qwen3/qwen3_q8_0.pte. The .pte
does not depend on the quantization: for F32, run it with the F32 file of the model. Any
other llama, qwen2 or qwen3 model in a .gguf works too.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from executorch_ggml.cli.main import main as executorch_ggml

FOLDER = Path("qwen3")


def main() -> int:
    parser = argparse.ArgumentParser(description="export Qwen3-0.6B to an ExecuTorch program")
    parser.add_argument(
        "--gguf",
        metavar="FILE",
        type=Path,
        default=FOLDER / "Qwen3-0.6B-Q8_0.gguf",
        help="the model (default: %(default)s)",
    )
    parser.add_argument(
        "--output", metavar="FILE", type=Path, default=FOLDER / "qwen3_q8_0.pte",
        help="default: %(default)s",
    )  # fmt: skip
    parser.add_argument("--max-seq-len", metavar="N", default="2048", help="default: %(default)s")
    args = parser.parse_args()
    if not args.gguf.is_file():
        print(
            f"{args.gguf} is not there. Download Qwen3-0.6B-Q8_0.gguf (Qwen/Qwen3-0.6B-GGUF on the "
            "Hugging Face hub) to it, or name another file with --gguf.",
            file=sys.stderr,
        )
        return 2
    args.output.parent.mkdir(parents=True, exist_ok=True)
    return executorch_ggml(
        ["export", str(args.gguf), "-o", str(args.output), "--max-seq-len", args.max_seq_len]
    )


if __name__ == "__main__":
    sys.exit(main())
