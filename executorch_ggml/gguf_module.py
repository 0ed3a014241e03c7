"""Run an exported language model from Python: the graph of a ``.pte``, the weights of a ``.gguf``.

module = GGUFModule("model.pte", "model.gguf")
logits = module.forward(torch.tensor([[1, 2, 3]]), torch.arange(3))
next_token = logits[0][:, -1, :].argmax(dim=-1).item()
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import torch

from executorch_ggml._capi import ArgumentInfo, LoadedProgram, RuntimeApiError, runtime_version
from executorch_ggml.weights.gguf import GGUFFile

__all__ = ["GGUFModule", "RuntimeApiError"]

PathLike = str | os.PathLike[str]


class GGUFModule:
    """A decoder made by :func:`~executorch_ggml.export_gguf.export_gguf_to_pte`, loaded to run.

    The module keeps the keys and values of the tokens it has seen; each call continues
    at the positions it is given. It may be used from several threads: calls wait for one
    another, and run without Python's global lock.

    Args:
        pte_path: the exported program.
        gguf_path: any quantization of the model it was made from.
        options: load options, such as ``n_threads=4``, ``context=4096``,
            ``cache_type="q8_0"``, ``device="cpu"``; all are in ``executorch_ggml/options.h``.

    Raises:
        LibraryError: the runtime library is missing.
        RuntimeApiError: a file is missing or damaged, the ``.gguf`` is of another model (the
            text lists what does not fit), or an option is not accepted.
    """

    def __init__(self, pte_path: PathLike, gguf_path: PathLike, **options: object) -> None:
        self.pte_path, self.gguf_path = Path(pte_path), Path(gguf_path)
        self._program = LoadedProgram(pte_path, [gguf_path], options)
        try:
            self._metadata = self._read_metadata()
            # Weights are bound here, so that a wrong file is told at once.
            self._program.load_method("forward")
        except BaseException:
            self._program.close()
            raise

    def _read_metadata(self) -> dict[str, Any]:
        """Values of the methods without inputs, by name."""
        values: dict[str, Any] = {}
        for method in self._program.methods:
            if self._program.describe(method).inputs:
                continue
            results = [result.tolist() for result in self._program.run(method)]
            is_list = len(results) > 1 or method.endswith("_ids")
            values[method] = results if is_list else results[0]
        return values

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the program says of itself: ``get_vocab_size``, ``get_eos_ids`` (a list), …"""
        return self._metadata

    def forward(self, input_ids: torch.Tensor, cache_pos: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Feed S tokens and return the logits of the last.

        Args:
            input_ids: ``[1, S]`` int64, S at most ``metadata["get_max_seq_len"]``.
            cache_pos: ``[S]`` int64: positions, each the previous one plus 1.

        Returns:
            A tuple with one tensor, ``[1, 1, vocab]`` float32.

        Raises:
            RuntimeApiError: wrong inputs, a token out of range, or the cache is full; the
                cached tokens stay as they were.
        """
        return self._program.run("forward", input_ids, cache_pos)

    __call__ = forward

    def forward_all(
        self, input_ids: torch.Tensor, cache_pos: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """As :meth:`forward`, with the logits of every token: ``[1, S, vocab]``."""
        return self._program.run("forward_all", input_ids, cache_pos)

    def reset(self) -> None:
        """Forget every token."""
        self._program.reset()

    def rewind(self, position: int) -> None:
        """Forget the tokens at ``position`` and later."""
        self._program.rewind(position)

    def fork_into(self, other: GGUFModule) -> None:
        """Make ``other``, a second load of the same files, continue from this one's tokens."""
        self._program.fork_into(other._program)

    def save_session(self, path: PathLike) -> None:
        """Write the cached tokens to a file."""
        self._program.save_session(path)

    def restore_session(self, path: PathLike) -> None:
        """Continue from a file that :meth:`save_session` wrote.

        Raises:
            RuntimeApiError: the file is damaged or of another program.
        """
        self._program.restore_session(path)

    @property
    def used_positions(self) -> int:
        """Positions that the cache holds."""
        return self._program.used_positions

    @property
    def position_capacity(self) -> int:
        """Positions that the cache can hold."""
        return self._program.position_capacity

    def print_info(self, file: TextIO | None = None) -> None:
        """Print what is loaded, to ``file`` or the standard output."""
        (file or sys.stdout).write(self._info() + "\n")

    def _info(self) -> str:
        header = GGUFFile.open(self.gguf_path)
        types = Counter(tensor.type.name for tensor in header.tensors.values())
        parameters = sum(_product(tensor.shape) for tensor in header.tensors.values())
        lines = [
            f"model    {header.get_str('general.name', '?')} ({header.architecture}), "
            f"{parameters / 1e6:.1f} M parameters",
            f"program  {self.pte_path} ({self.pte_path.stat().st_size / 1e3:.0f} KB)",
            f"weights  {self.gguf_path} ({self.gguf_path.stat().st_size / 1e6:.0f} MB: "
            + ", ".join(f"{n} x {name}" for name, n in types.most_common())
            + ")",
            f"runtime  executorch_ggml {runtime_version()}",
            f"cache    {self.used_positions} of {self.position_capacity} positions used",
        ]
        for method in self._program.methods:
            info = self._program.describe(method)
            if info.inputs:
                arguments = ", ".join(_describe(a) for a in info.inputs)
                results = ", ".join(_describe(a) for a in info.outputs)
                lines.append(f"method   {method}({arguments}) -> {results}")
        lines += [f"         {name} = {value}" for name, value in sorted(self.metadata.items())]
        return "\n".join(lines)

    def close(self) -> None:
        """Free the model. Later calls fail; closing twice does nothing."""
        self._program.close()

    def __enter__(self) -> GGUFModule:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for extent in shape:
        result *= extent
    return result


def _describe(argument: ArgumentInfo) -> str:
    if argument.dtype is None:
        return "number"
    return f"{str(argument.dtype).removeprefix('torch.')}{list(argument.sizes)}"
