"""One call from a GGUF file to a ``.pte`` that holds the graph and no weights.

    from executorch_ggml.export_gguf import export_gguf_to_pte, GGUFExportConfig

    export_gguf_to_pte("model.gguf", "model.pte", GGUFExportConfig(max_seq_len=2048))

The program names its weights as the file does and takes their types from the
file it is run with: a ``.pte`` made from the F16 file of a model runs with the
Q8_0 or Q4_K_M file of the same model.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from executorch_ggml.gguf.config import DecoderConfig, GGUFExportError
from executorch_ggml.report import DelegationReport

__all__ = ["GGUFExportConfig", "GGUFExportError", "GGUFExportResult", "export_gguf_to_pte"]

logger = logging.getLogger(__name__)

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class GGUFExportConfig:
    """What to export.

    Attributes:
        max_seq_len: positions the program is made for. Rounded up to a multiple of 256, and
            at most the model's context length, it is the capacity of the key/value cache
            when the program is loaded without the ``context`` option; that option may ask for
            anything up to the context length.
        preserve_dynamic_shapes: True: a call takes 1 to ``max_tokens_per_call`` tokens.
            False: every call takes exactly one token, and ``forward_all`` is left out, since
            it would be ``forward`` again.
        enable_quantization: True: the file may hold quantized tensors. False: refuse a file
            that does, so that what was exported and compared is known to be plain floats.
            The program itself is the same: types are read when it is loaded.
        max_tokens_per_call: bound of a call's tokens; memory for the largest call is reserved
            at load. Longer prompts go in several calls. None: ``max_seq_len``, at most 512.
        forward_all: add the method ``forward_all``, which returns the logits of every token
            where ``forward`` returns those of the last.
    """

    max_seq_len: int = 2048
    preserve_dynamic_shapes: bool = True
    enable_quantization: bool = True
    max_tokens_per_call: int | None = None
    forward_all: bool = True

    def __post_init__(self) -> None:
        if self.max_seq_len < 1:
            raise ValueError(f"max_seq_len is {self.max_seq_len}, expected at least 1")
        tokens = self.max_tokens_per_call
        if tokens is not None and tokens < 1:
            raise ValueError(f"max_tokens_per_call is {tokens}, expected at least 1")


@dataclass(frozen=True)
class GGUFExportResult:
    """What was written.

    Attributes:
        path: the ``.pte``.
        n_bytes: its size.
        model: the decoder as read from the file.
        max_tokens_per_call: bound of a call's tokens.
        cache_capacity: default capacity of the key/value cache, in positions.
        seconds: wall time of each stage, in order.
        reports: what was delegated, one report per method.
    """

    path: Path
    n_bytes: int
    model: DecoderConfig
    max_tokens_per_call: int
    cache_capacity: int
    seconds: Mapping[str, float]
    reports: tuple[DelegationReport, ...]


class _Stages:
    """Times the stages of an export and announces each."""

    def __init__(self, progress: Callable[[str], None] | None) -> None:
        self._progress = progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        logger.info("%s", name)
        if self._progress is not None:
            self._progress(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start


def export_gguf_to_pte(
    gguf_path: PathLike,
    pte_path: PathLike,
    config: GGUFExportConfig | None = None,
    *,
    progress: Callable[[str], None] | None = None,
) -> GGUFExportResult:
    """Export the model of a GGUF file; its tensor data is not read.

    Methods: ``forward(input_ids [1, S] int64, cache_pos [S] int64)`` returns the last
    token's logits ``[1, 1, vocab]``, ``forward_all`` every token's ``[1, S, vocab]``; both
    share weights and cache. The usual constant methods (``get_max_context_len``,
    ``get_vocab_size``, ``get_bos_id``, ``get_eos_ids``, …) are there.

    Args:
        gguf_path: architecture llama, qwen2 or qwen3.
        pte_path: written in one step: whatever stood there stays until the new file is whole.
        config: what to export.
        progress: called with the name of each stage as it begins.

    Raises:
        FileNotFoundError: ``gguf_path`` does not exist.
        GGUFError: it is not a well-formed GGUF file.
        GGUFExportError: the model is not supported or the file contradicts itself; the message
            lists everything that does not fit.
        NotDelegatedError: some operation of the model could not be lowered to ggml.
    """
    config = config or GGUFExportConfig()
    stages = _Stages(progress)
    with stages("import"):
        # Seconds of imports that only an export pays.
        from executorch.exir import ExecutorchBackendConfig, to_edge
        from executorch.exir.passes import MemoryPlanningPass

        from executorch_ggml.gguf.delegate import delegate_whole
        from executorch_ggml.gguf.program import build_programs
        from executorch_ggml.options import GgmlOptions, KVCacheOptions
        from executorch_ggml.weights.gguf import GGUFFile
    with stages("read"):
        header = GGUFFile.open(gguf_path)
    with stages("trace"):
        programs = build_programs(header, config)
    with stages("lower"):
        cache = programs.cache
        identity = repr((programs.config, programs.max_tokens_per_call, cache))
        options = GgmlOptions(
            strict=True,
            weight_keys=programs.weight_keys,
            kv_cache=KVCacheOptions(cache.default_capacity, cache.max_capacity),
            program_id=hashlib.sha256(identity.encode()).hexdigest()[:16],
        )
        lowered = {name: delegate_whole(programs, name, options) for name in programs.methods}
    with stages("write"):
        edge = to_edge(
            {name: program for name, (program, _) in lowered.items()},
            constant_methods=dict(programs.constant_methods),
        )
        # The caller owns inputs and outputs: planning would reserve the largest call's logits.
        planning = MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
        executorch = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
        n_bytes = _write_atomically(Path(pte_path), executorch.buffer)
    return GGUFExportResult(
        path=Path(pte_path),
        n_bytes=n_bytes,
        model=programs.config,
        max_tokens_per_call=programs.max_tokens_per_call,
        cache_capacity=cache.default_capacity,
        seconds=stages.seconds,
        reports=tuple(report for _, report in lowered.values()),
    )


def _write_atomically(path: Path, data: bytes) -> int:
    """Write beside ``path`` and rename; returns the size in bytes."""
    handle, temporary = tempfile.mkstemp(dir=path.parent or Path(), prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # mkstemp's files are private; a .pte is as readable as any new file.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return len(data)
