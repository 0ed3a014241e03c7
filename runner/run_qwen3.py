"""Runs an exported Qwen3 from Python and prints what it writes.

usage: python runner/run_qwen3.py --model qwen3/qwen3_q8_0.pte [--gguf FILE] [--prompt TEXT]

The weights are read from --gguf, by default the only .gguf beside the .pte. Text is made
into tokens by transformers, from the tokenizer inside the .gguf; --ids needs no
tokenizer. The C++ program run_llm does the same faster, with sampling and conversations.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from executorch_ggml._library import LibraryError
from executorch_ggml.gguf_module import GGUFModule, RuntimeApiError


def generate(module: GGUFModule, ids: list[int], limit: int) -> Iterator[int]:
    """Greedy tokens after ``ids``, up to an end token, ``limit`` or the context's end."""
    most = int(module.metadata["get_max_seq_len"])
    ends = module.metadata.get("get_eos_ids", [])
    stop = set(ends if isinstance(ends, list) else [int(ends)])
    logits = torch.empty(0)
    for start in range(0, len(ids), most):
        chunk = torch.tensor([ids[start : start + most]])
        (logits,) = module.forward(chunk, torch.arange(start, start + chunk.shape[1]))
    position = len(ids)
    for _ in range(limit):
        token = int(logits[0, -1].argmax())
        if token in stop:
            return
        yield token
        if position >= module.position_capacity:
            print("\n(the context is full)", file=sys.stderr)
            return
        (logits,) = module.forward(torch.tensor([[token]]), torch.tensor([position]))
        position += 1


def load_tokenizer(gguf: Path) -> Any:
    """The tokenizer of a .gguf. Takes up to a minute for a large vocabulary."""
    from transformers import AutoTokenizer

    print(f"reading the tokenizer of {gguf} ...", file=sys.stderr)
    return AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)


def encode(tokenizer: Any, prompt: str) -> list[int]:
    """The prompt as a user's turn where the model has a chat template."""
    if not tokenizer.chat_template:
        return list(tokenizer(prompt)["input_ids"])
    turn = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def find_gguf(model: Path) -> Path | str:
    """The only .gguf beside the program, or what is wrong."""
    files = sorted(model.parent.glob("*.gguf"))
    if len(files) == 1:
        return files[0]
    return f"{len(files)} .gguf files beside {model}: name one with --gguf"


def run(args: argparse.Namespace) -> int:
    gguf = args.gguf or find_gguf(args.model)
    if isinstance(gguf, str):
        print(gguf, file=sys.stderr)
        return 2
    options = {} if args.threads is None else {"n_threads": args.threads}
    tokenizer = None if args.ids else load_tokenizer(gguf)
    ids = [int(i) for i in args.ids.split(",")] if args.ids else encode(tokenizer, args.prompt)
    with GGUFModule(args.model, gguf, **options) as module:
        start, tokens = time.perf_counter(), []
        for token in generate(module, ids, args.n_predict):
            tokens.append(token)
            text = f"{token} " if tokenizer is None else tokenizer.decode([token])
            print(text, end="", flush=True)
        seconds = time.perf_counter() - start
    print()
    rate = len(tokens) / seconds if tokens else 0.0
    print(f"{len(ids)} tokens in, {len(tokens)} out, {rate:.1f} tok/s", file=sys.stderr)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="run an exported Qwen3 from Python")
    parser.add_argument("--model", metavar="FILE.pte", type=Path, required=True)
    parser.add_argument("--gguf", metavar="FILE", type=Path, help="default: beside the .pte")
    text = parser.add_mutually_exclusive_group()
    text.add_argument("--prompt", default="Give me a short introduction to large language models.")
    text.add_argument("--ids", metavar="N,N,…", help="token ids instead of text")
    parser.add_argument("--n-predict", metavar="N", type=int, default=128)
    parser.add_argument("--threads", metavar="N", type=int)
    try:
        return run(parser.parse_args())
    except (LibraryError, RuntimeApiError, OSError, ValueError) as error:
        print(f"run_qwen3: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
