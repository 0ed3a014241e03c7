"""Compare vision models with ExecuTorch's XNNPACK delegate and onnxruntime, in the same run.

    python -m bench.vision                             # every model
    python -m bench.vision --models mobilenet_v2 vit_b16
    python -m bench.vision --weight-dtype f16 --json result.json

Shapes are the real ones, most weights random (speed does not depend on them); batch 1, 224 x 224.
onnxruntime takes part where it is installed, with what exports for it (``pip install onnxruntime
onnxscript``). The machine should be idle.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from executorch.exir import to_edge_transform_and_lower

from bench.machine import ROOT
from bench.measure import Summary, ratios, take_turns
from executorch_ggml import GgmlOptions, GgmlPartitioner, to_edge_rewrite_and_lower
from executorch_ggml._library import load_library
from executorch_ggml.passes import BatchNormFoldingRewritePass

CACHE = ROOT / ".cache" / "bench" / "vision"
OURS, XNNPACK, ONNXRUNTIME = "executorch-ggml", "XNNPACK", "onnxruntime"
SUFFIXES = {OURS: "ggml.{}.pte", XNNPACK: "xnnpack.pte", ONNXRUNTIME: "onnx"}
#: Computes the scores of one image.
Call = Callable[[], object]
#: A call is repeated for this long in every turn.
SECONDS = 2.0


class Scores(torch.nn.Module):
    """Images [n, 3, 224, 224] to scores."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: torch.Tensor) -> Any:
        return self.model(pixel_values=pixels).logits


def _resnet(depths: list[int], layer_type: str, sizes: list[int]) -> torch.nn.Module:
    config = transformers.ResNetConfig(depths=depths, layer_type=layer_type, hidden_sizes=sizes)
    return Scores(transformers.ResNetForImageClassification(config))


def _efficientnet_lite0() -> torch.nn.Module:
    """The package's model, with its weights: both are fetched once."""
    from tests.vision.test_real_weights import efficientnet_lite0

    return efficientnet_lite0()


MODELS: Mapping[str, Callable[[], torch.nn.Module]] = {
    "mobilenet_v2": lambda: Scores(
        transformers.MobileNetV2ForImageClassification(
            transformers.MobileNetV2Config(tf_padding=False)
        )
    ),
    "efficientnet_lite0": _efficientnet_lite0,
    "resnet18": lambda: _resnet([2, 2, 2, 2], "basic", [64, 128, 256, 512]),
    "resnet50": lambda: _resnet([3, 4, 6, 3], "bottleneck", [256, 512, 1024, 2048]),
    "vit_b16": lambda: Scores(transformers.ViTForImageClassification(transformers.ViTConfig())),
}


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def contenders() -> list[str]:
    """Ours, and the peers that are installed."""
    onnx = all(importlib.util.find_spec(name) for name in ("onnxruntime", "onnxscript"))
    return [OURS, XNNPACK, *([ONNXRUNTIME] if onnx else [])]


def exported(name: str, weight_dtype: str, anew: bool) -> dict[str, Path]:
    """The programs of a model by contender, made once (ours again if ``anew``)."""
    CACHE.mkdir(parents=True, exist_ok=True)
    paths = {peer: CACHE / f"{name}.{SUFFIXES[peer].format(weight_dtype)}" for peer in contenders()}
    missing = [p for p in paths if not paths[p].is_file() or (anew and p == OURS)]
    if not missing:
        return paths
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    for peer in missing:
        _progress(f"exporting {name} for {peer}")
        program = torch.export.export(model, (torch.randn(1, 3, 224, 224),))
        if peer == ONNXRUNTIME:
            torch.onnx.export(program, f=paths[peer], external_data=False, verbose=False)
            continue
        if peer == OURS:
            options = GgmlOptions(strict=True, weight_dtype=weight_dtype)
            edge = to_edge_rewrite_and_lower(
                program,
                ep_passes=[BatchNormFoldingRewritePass()],
                partitioner=[GgmlPartitioner(options)],
            )
        else:
            from executorch.backends.xnnpack.partition.xnnpack_partitioner import (
                XnnpackPartitioner,
            )

            edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
        paths[peer].write_bytes(edge.to_executorch().buffer)
    return paths


def _executorch(path: Path, threads: int) -> Callable[[], Call]:
    import executorch.extension.pybindings.portable_lib as portable_lib

    load_library()
    portable_lib._unsafe_reset_threadpool(threads)
    images = torch.randn(1, 3, 224, 224)

    def load() -> Call:
        program = portable_lib._load_for_executorch(str(path))
        return lambda: program.run_method("forward", (images,))

    return load


def _onnxruntime(path: Path, threads: int) -> Callable[[], Call]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    images = torch.randn(1, 3, 224, 224).numpy()

    def load() -> Call:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        (given,) = session.get_inputs()
        return lambda: session.run(None, {given.name: images})

    return load


def measure(path: Path, threads: int) -> dict[str, float]:
    """Latency of a call, and what loading and calling adds to the peak memory of a process."""
    load = (_onnxruntime if path.suffix == ".onnx" else _executorch)(path, threads)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts here
    call = load()
    for _ in range(3):
        call()
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return {
        "latency_ms": statistics.median(times) * 1e3,
        "peak_memory_mib": _status("VmHWM") - before,
    }


def _status(field: str) -> float:
    """A figure of this process, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1]) / 1024


def _in_process(path: Path, threads: int, **variables: str) -> subprocess.CompletedProcess[str]:
    """:func:`measure` in a process of its own, with these environment variables."""
    command = [sys.executable, "-m", "bench.vision", "--measure", str(path)]
    command += ["--threads", str(threads)]
    environment = {**os.environ, "GGML_N_THREADS": str(threads), **variables}
    return subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=ROOT, env=environment
    )


def figures(path: Path, threads: int) -> dict[str, float]:
    """What :func:`measure` finds in a process of its own."""
    found: dict[str, float] = json.loads(_in_process(path, threads).stdout.splitlines()[-1])
    return found


def profile(path: Path, threads: int) -> list[str]:
    """Where the time of our calls goes, by kind of op, the longest first."""
    lines = _in_process(path, threads, GGML_PROFILE="1").stderr.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("ggml profile of"))
    return [" ".join(line.split()) for line in lines[start + 1 :] if " ms " in line and "%" in line]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--weight-dtype", default="f32", help="of our program's products")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--reuse", action="store_true", help="do not export ours again")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure is not None:
        print(json.dumps(measure(args.measure, args.threads)))
        return
    results: dict[str, Any] = {}
    for name in args.models:
        paths = exported(name, args.weight_dtype, not args.reuse)
        runs = {peer: partial(figures, path, args.threads) for peer, path in paths.items()}
        _progress(name)
        series = take_turns(runs, args.turns, _progress)
        results[name] = {"figures": {peer: s.values for peer, s in series.items()}, "ratios": {}}
        for peer in [p for p in paths if p != OURS]:
            found = ratios(series[OURS], series[peer])
            results[name]["ratios"][peer] = {f: asdict(summary) for f, summary in found.items()}
            for figure, ratio in found.items():
                a, b = (Summary.of(series[p].values[figure]) for p in (OURS, peer))
                print(f"{name:18} {figure:16} {OURS} {a}, {peer} {b}, ratio {ratio}", flush=True)
        results[name]["profile"] = profile(paths[OURS], args.threads)
        for line in results[name]["profile"][:5]:
            print(f"{name:18} {line}", flush=True)
    print(f"{args.threads} threads; median (lowest .. highest), ratio: ours over the peer's")
    if args.json is not None:
        machine = platform.processor() or platform.machine()
        result = {"machine": machine, "threads": args.threads, "models": results}
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
