"""``executorch-ggml export``: a ``.gguf`` becomes a ``.pte`` that holds its graph."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from executorch_ggml.cli.errors import CliError, ExitCode

_STAGES = {
    "import": "importing PyTorch and ExecuTorch",
    "read": "reading the model's description",
    "trace": "tracing the model",
    "lower": "lowering to ggml",
    "write": "writing the program",
}


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "export",
        parents=[common],
        help="make a .pte from a .gguf",
        description="Write a .pte with the graph of a GGUF model (architecture llama, qwen2 or "
        "qwen3) and none of its weights: they are read from the .gguf at run time, of any "
        "quantization.",
    )
    command.add_argument("gguf", metavar="MODEL.gguf", type=Path)
    command.add_argument(
        "-o", "--output", metavar="MODEL.pte", type=Path, help="default: beside the .gguf"
    )
    command.add_argument(
        "--max-seq-len",
        metavar="N",
        type=_positive,
        default=2048,
        help="positions that the program is made for; the cache can be larger at load, up to "
        "the model's context (default: %(default)s)",
    )
    command.add_argument(
        "--max-tokens-per-call",
        metavar="N",
        type=_positive,
        help="most tokens in one call; memory for them is reserved at load "
        "(default: --max-seq-len, at most 512)",
    )
    command.add_argument(
        "--static",
        action="store_true",
        help="one token per call: no prefill, the smallest memory",
    )
    command.add_argument(
        "--no-forward-all",
        action="store_true",
        help="leave out the method that returns the logits of every token",
    )
    command.add_argument(
        "--floats-only", action="store_true", help="refuse a file with quantized tensors"
    )
    command.set_defaults(handler=run)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def run(args: argparse.Namespace) -> int:
    """Export and print what was made."""
    # Found before PyTorch is imported, which takes seconds.
    output: Path = args.output or args.gguf.with_suffix(".pte")
    if not args.gguf.is_file():
        raise CliError(f"{args.gguf} does not exist or is not a file")
    with args.gguf.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise CliError(f"{args.gguf} is no GGUF file")
    if not output.resolve().parent.is_dir():
        raise CliError(f"the folder of {output} does not exist; make it first")

    from executorch_ggml.cli.console import Stages, bytes_text, stderr, stdout
    from executorch_ggml.export_gguf import GGUFExportConfig, export_gguf_to_pte

    config = GGUFExportConfig(
        max_seq_len=args.max_seq_len,
        preserve_dynamic_shapes=not args.static,
        enable_quantization=not args.floats_only,
        max_tokens_per_call=args.max_tokens_per_call,
        forward_all=not args.no_forward_all,
    )
    stderr().print(f"exporting {args.gguf}", markup=False)
    with Stages(_STAGES) as stage:
        result = export_gguf_to_pte(args.gguf, output, config, progress=stage)
    model = result.model
    out = stdout()
    lines = [
        f"{result.path}: {bytes_text(result.n_bytes)} in {sum(result.seconds.values()):.1f} s",
        f"  model   {model.name or 'without a name'} ({model.architecture}): "
        f"{model.n_layers} layers, hidden size {model.hidden_size}, vocabulary {model.vocab_size}",
        f"  calls   1 to {result.max_tokens_per_call} tokens, cache of {result.cache_capacity} "
        f"positions (at most {model.context_length})",
        f"  weights {args.gguf} ({bytes_text(args.gguf.stat().st_size)}), or another "
        "quantization of this model",
    ]
    lines += [f"  {line}" for report in result.reports for line in str(report).splitlines()]
    out.print("\n".join(lines), markup=False, soft_wrap=True)
    return ExitCode.OK
