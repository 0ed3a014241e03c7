"""Input tensors from files or at random, and what is printed and saved of outputs."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from executorch_ggml._capi import ArgumentInfo
from executorch_ggml.cli.errors import CliError

#: Random integers stay below this, so that they are valid indices of most tables.
_RANDOM_INTEGERS: Final = 10


def read_inputs(paths: Sequence[Path]) -> list[torch.Tensor]:
    """The tensors in ``.npy``, ``.npz`` and ``.pt`` files, in order.

    An ``.npz`` with entries ``input0``, ``input1``, … gives those, another one all of its entries.

    Raises:
        CliError: a file is missing, damaged, of another kind, or holds no tensors.
    """
    return [tensor for path in paths for tensor in _read(path)]


def _read(path: Path) -> list[torch.Tensor]:
    if not path.is_file():
        raise CliError(f"{path} does not exist or is not a file")
    try:
        if path.suffix == ".npy":
            return [_from_numpy(np.load(path, allow_pickle=False))]
        if path.suffix == ".npz":
            entries = read_npz(path)
            return numbered(entries, "input") or list(entries.values())
        if path.suffix in (".pt", ".pth"):
            return _tensors(torch.load(path, map_location="cpu", weights_only=True), path)
    except (
        ValueError,
        EOFError,
        pickle.UnpicklingError,
        zipfile.BadZipFile,
        RuntimeError,
    ) as error:
        raise CliError(f"{path} cannot be read: {error}") from error
    raise CliError(f"{path}: expected a .npy, .npz or .pt file")


def read_npz(path: Path) -> dict[str, torch.Tensor]:
    """Every entry of an ``.npz`` file.

    Raises:
        CliError: missing or damaged.
    """
    if not path.is_file():
        raise CliError(f"{path} does not exist or is not a file")
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise CliError(f"{path}: expected an .npz file with named tensors")
            return {name: _from_numpy(archive[name]) for name in archive.files}
    except (ValueError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise CliError(f"{path} cannot be read: {error}") from error


def numbered(entries: Mapping[str, torch.Tensor], stem: str) -> list[torch.Tensor]:
    """The entries ``stem0``, ``stem1``, … in the order of their numbers."""
    found = {int(m[1]): t for n, t in entries.items() if (m := re.fullmatch(stem + r"(\d+)", n))}
    return [found[index] for index in sorted(found)]


def _from_numpy(array: Any) -> torch.Tensor:
    try:
        # Scalars and big-endian arrays have no torch equal as they are.
        return torch.from_numpy(
            np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)
        )
    except TypeError as error:
        raise ValueError(f"an array of {array.dtype} is no tensor") from error


def _tensors(value: Any, path: Path) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value.detach()]
    items = value.values() if isinstance(value, dict) else value
    if isinstance(items, Mapping | str) or not hasattr(items, "__iter__"):
        raise CliError(f"{path} holds a {type(value).__name__}, expected tensors")
    found = list(items)
    if not all(isinstance(item, torch.Tensor) for item in found):
        raise CliError(f"{path} holds more than tensors")
    return [item.detach() for item in found]


def random_inputs(
    arguments: Sequence[ArgumentInfo], sizes: Mapping[int, tuple[int, ...]], seed: int
) -> list[torch.Tensor]:
    """Inputs that fit ``arguments``: normal floats, integers from 0 to 9, random booleans.

    ``sizes`` replaces the sizes of single inputs, which are upper bounds where they vary.
    """
    generator = torch.Generator().manual_seed(seed)
    unknown = sorted(set(sizes) - set(range(len(arguments))))
    if unknown:
        raise CliError(f"--size names input {unknown[0]}, but there are {len(arguments)} inputs")
    tensors = []
    for index, argument in enumerate(arguments):
        if argument.dtype is None:
            raise CliError(f"input {index} is a number: give it with --input")
        shape = sizes.get(index, argument.sizes)
        if argument.dtype.is_floating_point:
            tensor = torch.randn(shape, generator=generator).to(argument.dtype)
        else:
            top = 2 if argument.dtype is torch.bool else _RANDOM_INTEGERS
            tensor = torch.randint(0, top, shape, generator=generator).to(argument.dtype)
        tensors.append(tensor)
    return tensors


def parse_size(text: str) -> tuple[int, tuple[int, ...]]:
    """``0=1x16`` as ``(0, (1, 16))``."""
    index, separator, shape = text.partition("=")
    try:
        if not separator:
            raise ValueError
        sizes = tuple(int(extent) for extent in shape.split("x")) if shape else ()
        return int(index), sizes
    except ValueError:
        raise CliError(f"--size {text}: expected INPUT=SIZES, such as 0=1x16") from None


def cast_inputs(
    tensors: Sequence[torch.Tensor], arguments: Sequence[ArgumentInfo]
) -> list[torch.Tensor]:
    """Each tensor in the element type that the program takes.

    Raises:
        CliError: integers that do not fit, or floats for an integer input.
    """
    result = []
    for index, (tensor, argument) in enumerate(zip(tensors, arguments, strict=False)):
        wanted = argument.dtype or tensor.dtype
        cast = tensor.to(wanted)
        exact = wanted.is_floating_point or torch.equal(cast.to(tensor.dtype), tensor)
        if not exact:
            raise CliError(f"input {index}: its values do not fit {type_name(wanted)}")
        result.append(cast)
    return result + list(tensors[len(result) :])


def check_inputs(tensors: Sequence[torch.Tensor], arguments: Sequence[ArgumentInfo]) -> None:
    """Refuse what cannot fit, with a hint; the runtime checks the rest.

    Raises:
        CliError: the number of inputs, an element type or a rank is wrong.
    """
    signature = ", ".join(map(describe, arguments)) or "none"
    if len(tensors) != len(arguments):
        raise CliError(f"{len(tensors)} inputs given, expected {len(arguments)}: {signature}")
    for index, (tensor, argument) in enumerate(zip(tensors, arguments, strict=True)):
        if argument.dtype is None:
            continue
        if tensor.dtype != argument.dtype:
            raise CliError(
                f"input {index} is {type_name(tensor.dtype)}, expected "
                f"{type_name(argument.dtype)}; --cast converts it"
            )
        sizes = list(tensor.shape)
        fits = len(sizes) == len(argument.sizes) and all(
            size <= most for size, most in zip(sizes, argument.sizes, strict=True)
        )
        if not fits:
            raise CliError(
                f"input {index} has sizes {sizes}, expected {list(argument.sizes)} at most"
            )


def type_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def describe(argument: ArgumentInfo) -> str:
    """``float32[2, 4]``, sizes at their upper bounds."""
    if argument.dtype is None:
        return "a number"
    return f"{type_name(argument.dtype)}{list(argument.sizes)}"


def statistics(tensor: torch.Tensor) -> tuple[str, ...]:
    """Smallest, largest, mean, standard deviation, and how many are not finite."""
    if tensor.numel() == 0:
        return ("", "", "", "", "0")
    values = tensor.to(torch.float64)
    finite = values[torch.isfinite(values)]
    bad = values.numel() - finite.numel()
    if finite.numel() == 0:
        return ("", "", "", "", str(bad))
    spread = finite.std().item() if finite.numel() > 1 else 0.0
    figures = (finite.min().item(), finite.max().item(), finite.mean().item(), spread)
    return (*(f"{figure:.6g}" for figure in figures), str(bad))


def save_npz(path: Path, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
    """Write ``input0`` … and ``output0`` …, which ``verify --reference`` reads.

    NumPy has no bfloat16: such tensors are stored as float32, which holds them exactly.
    """
    entries = {f"input{i}": t for i, t in enumerate(inputs)}
    entries |= {f"output{i}": t for i, t in enumerate(outputs)}
    arrays = {
        name: (t.float() if t.dtype is torch.bfloat16 else t).numpy() for name, t in entries.items()
    }
    if path.suffix != ".npz":
        raise CliError(f"--save {path}: the file's name must end in .npz")
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
