"""Compare decoding and prefill with llama.cpp on the same file, in the same run.

    python -m bench.llm                       # Qwen3-0.6B Q8_0 with random weights
    python -m bench.llm --gguf model.gguf     # a file of your own
    python -m bench.llm --json result.json

The machine should be idle: ggml's threads spin, so a busy core distorts everything.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from bench.measure import Series, Summary, ratios, take_turns
from bench.peers import ROOT, benchmark_llm, build_llama_cpp, llama_bench

CACHE = ROOT / ".cache" / "bench"


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def random_model(type_name: str) -> Path:
    """Qwen3-0.6B's shape with seeded random weights, made once."""
    path = CACHE / f"qwen3-0.6b-{type_name.lower()}.gguf"
    if not path.is_file():
        _progress(f"writing {path.name}")
        CACHE.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        maker = ROOT / "tests" / "gguf_models.py"
        subprocess.run([sys.executable, maker, partial, "--type", type_name], check=True)
        partial.rename(path)
    return path


def exported(model: Path) -> Path:
    """The program of a model, exported once per file."""
    CACHE.mkdir(parents=True, exist_ok=True)
    program = CACHE / f"{model.stem}.pte"
    if not program.is_file() or program.stat().st_mtime < model.stat().st_mtime:
        from executorch_ggml.export_gguf import export_gguf_to_pte

        _progress(f"exporting {model.name}")
        export_gguf_to_pte(model, program)
    return program


def _table(ours: Series, peer: Series, ratio: dict[str, Summary]) -> str:
    lines = [f"{'':10} {'executorch-ggml':>28} {'llama.cpp':>28} {'ratio':>26}"]
    for figure, summary in ratio.items():
        a, b = Summary.of(ours.values[figure]), Summary.of(peer.values[figure])
        lines.append(f"{figure:10} {a!s:>28} {b!s:>28} {summary!s:>26}")
    lines.append("tokens per second: median (lowest .. highest); ratio: ours over llama.cpp's")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gguf", type=Path, help="model file (default: random Qwen3-0.6B)")
    parser.add_argument("--type", default="Q8_0", help="type of the random model's matrices")
    parser.add_argument("--binary", type=Path, default=ROOT / "build/benchmark/benchmark_llm")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--decode", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    args = parser.parse_args()
    tools = build_llama_cpp(_progress)
    model = args.gguf or random_model(args.type)
    program = exported(model)
    work = (args.prompt, args.decode, args.threads)
    runs = {
        "executorch-ggml": lambda: benchmark_llm(args.binary, program, model, *work),
        "llama.cpp": lambda: llama_bench(tools, model, *work),
    }
    series = take_turns(runs, args.turns, _progress)
    ours, peer = series["executorch-ggml"], series["llama.cpp"]
    ratio = ratios(ours, peer)
    print(f"{model.name}, {args.threads} threads, prompt {args.prompt}, decode {args.decode}")
    print(_table(ours, peer, ratio))
    if args.json is not None:
        result = {
            "model": model.name,
            "machine": platform.processor() or platform.machine(),
            "threads": args.threads,
            "prompt": args.prompt,
            "decode": args.decode,
            "figures": {name: s.values for name, s in series.items()},
            "ratios": {figure: asdict(summary) for figure, summary in ratio.items()},
        }
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
