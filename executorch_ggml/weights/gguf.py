"""Read what a GGUF file (versions 2 and 3) says: metadata and where its tensors lie.

No tensor data is read and arrays are stepped over, so a vocabulary of 150k
tokens costs milliseconds. The checks are those of the runtime's parser
(``runtime/gguf_file.cpp``): a file that is accepted here loads there. The format
is described in ``docs/gguf.md`` of the ggml project.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise, repeat
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

from executorch_ggml.ir.types import DType

_T = TypeVar("_T")

MAGIC: Final = b"GGUF"
DEFAULT_ALIGNMENT: Final = 32
MAX_ALIGNMENT: Final = 1 << 20
MAX_DIMS: Final = 4
MAX_NAME_BYTES: Final = 63  # GGML_MAX_NAME less its NUL
MAX_KEY_BYTES: Final = 65535

# The least that one record takes, which bounds a count by the bytes left.
_MIN_KEY_BYTES: Final = 8 + 1 + 4 + 1  # length, key, type, value
_MIN_TENSOR_BYTES: Final = 8 + 1 + 4 + 8 + 4 + 8  # length, name, n_dims, ne, type, offset
_MAX_INT64: Final = (1 << 63) - 1

# Formats that ggml dropped: files of them exist, so they are refused by name.
_REMOVED_TYPES: Final[Mapping[int, str]] = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}


class GGUFError(ValueError):
    """The file is not a well-formed GGUF file, or does not say what was asked."""


class ValueType(IntEnum):
    """Types of metadata values; the numbers are the format's."""

    U8 = 0
    I8 = 1
    U16 = 2
    I16 = 3
    U32 = 4
    I32 = 5
    F32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    U64 = 10
    I64 = 11
    F64 = 12


_FORMATS: Final[Mapping[ValueType, struct.Struct]] = {
    ValueType.U8: struct.Struct("<B"),
    ValueType.I8: struct.Struct("<b"),
    ValueType.U16: struct.Struct("<H"),
    ValueType.I16: struct.Struct("<h"),
    ValueType.U32: struct.Struct("<I"),
    ValueType.I32: struct.Struct("<i"),
    ValueType.F32: struct.Struct("<f"),
    ValueType.BOOL: struct.Struct("<B"),
    ValueType.U64: struct.Struct("<Q"),
    ValueType.I64: struct.Struct("<q"),
    ValueType.F64: struct.Struct("<d"),
}
_U32: Final = _FORMATS[ValueType.U32]
_U64: Final = _FORMATS[ValueType.U64]


def _text(data: bytes) -> str:
    """Lossless: bytes that are no UTF-8 become lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class GGUFArray:
    """A metadata array, left in the file until it is read."""

    path: Path
    element_type: ValueType
    length: int
    offset: int
    nbytes: int

    def __len__(self) -> int:
        return self.length

    def read(self) -> list[Scalar]:
        """The elements.

        Raises:
            OSError: the file is gone.
            GGUFError: the file has changed since its header was read.
        """
        with self.path.open("rb") as file:
            file.seek(self.offset)
            data = file.read(self.nbytes)
        if len(data) != self.nbytes:
            raise GGUFError(f"{self.path}: the file has been shortened since it was opened")
        if self.element_type == ValueType.STRING:
            return list(self._strings(data))
        values = [
            value for (value,) in struct.iter_unpack(_FORMATS[self.element_type].format, data)
        ]
        if self.element_type == ValueType.BOOL:
            return [value != 0 for value in values]
        return values

    def _strings(self, data: bytes) -> Iterator[str]:
        position = 0
        for _ in range(self.length):
            if position + 8 > len(data):
                raise GGUFError(f"{self.path}: the file has changed since it was opened")
            (length,) = _U64.unpack_from(data, position)
            position += 8
            if length > len(data) - position:
                raise GGUFError(f"{self.path}: the file has changed since it was opened")
            yield _text(data[position : position + length])
            position += length


Scalar: TypeAlias = "int | float | bool | str"
Value: TypeAlias = "int | float | bool | str | GGUFArray"


@dataclass(frozen=True)
class TensorInfo:
    """A tensor's place: ``shape`` in ggml order (``shape[0]`` varies fastest).

    ``offset`` and ``nbytes`` are bytes of the file.
    """

    name: str
    type: DType
    shape: tuple[int, ...]
    offset: int
    nbytes: int

    @property
    def torch_shape(self) -> tuple[int, ...]:
        return self.shape[::-1]


@dataclass(frozen=True)
class GGUFFile:
    """The header of a GGUF file. ``tensors`` are in the file's order."""

    path: Path
    version: int
    alignment: int
    data_offset: int
    metadata: Mapping[str, Value]
    tensors: Mapping[str, TensorInfo]

    @staticmethod
    def open(path: str | os.PathLike[str]) -> GGUFFile:
        """Read the header of the file at ``path``.

        Raises:
            OSError: the file cannot be opened.
            GGUFError: it is malformed; the message names the key or the tensor.
        """
        place = Path(path)
        if place.exists() and not place.is_file():
            raise GGUFError(f"{place}: not a regular file")
        with place.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise GGUFError(f"{place}: the file is empty")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                try:
                    return _Parser(data, place).run()
                except GGUFError as error:
                    raise GGUFError(f"{place}: {error}") from None

    @property
    def architecture(self) -> str:
        """``general.architecture``, such as ``llama``."""
        return self.get_str("general.architecture")

    def get_str(self, key: str, default: str | None = None) -> str:
        """The string at ``key``; ``default``, if given, where the file lacks it.

        Raises:
            GGUFError: absent without a default, or of another type.
        """
        return self._get(key, default, "a string", lambda v: isinstance(v, str), str)

    def get_int(self, key: str, default: int | None = None) -> int:
        """The integer at ``key``, as :meth:`get_str`."""
        return self._get(key, default, "an integer", lambda v: type(v) is int, int)

    def get_float(self, key: str, default: float | None = None) -> float:
        """The number at ``key``, as :meth:`get_str`; an integer becomes a float."""
        return self._get(key, default, "a number", lambda v: type(v) in (int, float), float)

    def get_bool(self, key: str, default: bool | None = None) -> bool:
        """The bool at ``key``, as :meth:`get_str`."""
        return self._get(key, default, "a bool", lambda v: isinstance(v, bool), bool)

    def get_array(self, key: str) -> list[Scalar]:
        """The elements of the array at ``key``, as :meth:`get_str`."""
        value = self.metadata.get(key)
        if isinstance(value, GGUFArray):
            return value.read()
        raise self._unfit(key, "an array")

    def read_tensor(self, name: str) -> bytes:
        """The raw bytes of one tensor, in its ggml type.

        Raises:
            OSError: the file is gone.
            GGUFError: no such tensor, or the file was shortened.
        """
        tensor = self.tensors.get(name)
        if tensor is None:
            raise GGUFError(f"{self.path}: no tensor {name!r}")
        with self.path.open("rb") as file:
            file.seek(tensor.offset)
            data = file.read(tensor.nbytes)
        if len(data) != tensor.nbytes:
            raise GGUFError(f"{self.path}: the file has been shortened since it was opened")
        return data

    def _get(
        self,
        key: str,
        default: _T | None,
        expected: str,
        fits: Callable[[Value], bool],
        convert: Callable[..., _T],
    ) -> _T:
        value = self.metadata.get(key)
        if value is None and default is not None:
            return default
        if value is None or not fits(value):
            raise self._unfit(key, expected)
        return convert(value)

    def _unfit(self, key: str, expected: str) -> GGUFError:
        if key not in self.metadata:
            return GGUFError(f"{self.path}: no metadata key {key!r}, expected {expected}")
        value = self.metadata[key]
        held = "an array" if isinstance(value, GGUFArray) else repr(value)
        return GGUFError(f"{self.path}: metadata key {key!r} is {held}, expected {expected}")


class _Parser:
    """One forward pass over the bytes of a file."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self.data = data
        self.path = path
        self.size = len(data)
        self.position = 0

    def run(self) -> GGUFFile:
        version, n_tensors, n_keys = self._header()
        metadata: dict[str, Value] = {}
        for index in range(n_keys):
            key, value = self._entry(index)
            if key in metadata:
                raise GGUFError(f"metadata key {key!r} occurs twice")
            metadata[key] = value
        alignment = self._alignment(metadata)
        relative: dict[str, TensorInfo] = {}
        for index in range(n_tensors):
            tensor = self._tensor(index, alignment)
            if tensor.name in relative:
                raise GGUFError(f"tensor {tensor.name!r} occurs twice")
            relative[tensor.name] = tensor
        data_offset = (self.position + alignment - 1) // alignment * alignment
        if not relative:
            data_offset = min(data_offset, self.size)
        tensors = self._place(relative, data_offset)
        return GGUFFile(
            self.path,
            version,
            alignment,
            data_offset,
            MappingProxyType(metadata),
            MappingProxyType(tensors),
        )

    def _truncated(self, what: str, needed: int) -> GGUFError:
        return GGUFError(
            f"file ends at byte {self.size} in {what}, which starts at byte {self.position} and "
            f"needs {needed} bytes; the file is truncated or corrupt"
        )

    def _number(self, form: struct.Struct, what: str) -> int:
        if self.size - self.position < form.size:
            raise self._truncated(what, form.size)
        (value,) = form.unpack_from(self.data, self.position)
        self.position += form.size
        return int(value)

    def _string(self, what: str) -> bytes:
        length = self._number(_U64, what)
        if length > self.size - self.position:
            raise self._truncated(what, length)
        start = self.position
        self.position += length
        return self.data[start : self.position]

    def _name(self, what: str, most: int) -> str:
        start = self.position
        raw = self._string(what)
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError:
            name = ""
        if not name or len(raw) > most or "\0" in name:
            raise GGUFError(
                f"{what} at byte {start} has a bad name ({len(raw)} bytes: {raw[:64]!r}); "
                f"expected 1 to {most} bytes of UTF-8 without NUL"
            )
        return name

    def _header(self) -> tuple[int, int, int]:
        what = "the header"
        if self.size < len(MAGIC):
            raise self._truncated(what, len(MAGIC))
        magic = self.data[: len(MAGIC)]
        if magic != MAGIC:
            raise GGUFError(f"not a GGUF file: it starts with {magic!r}, expected {MAGIC!r}")
        self.position = len(MAGIC)
        version = self._number(_U32, what)
        # A small version whose bytes are swapped has only its high byte set.
        if version and version & 0xFFFF == 0:
            raise GGUFError(
                f"a big-endian GGUF file (its version reads 0x{version:08x}); only little-endian "
                "files are supported: convert it with gguf-convert-endian"
            )
        if version not in (2, 3):
            advice = "; convert the model again with a current llama.cpp" if version == 1 else ""
            raise GGUFError(f"GGUF version {version} is not supported, expected 2 or 3{advice}")
        n_tensors = self._number(_U64, what)
        n_keys = self._number(_U64, what)
        for name, count, least in (
            ("metadata keys", n_keys, _MIN_KEY_BYTES),
            ("tensors", n_tensors, _MIN_TENSOR_BYTES),
        ):
            left = self.size - self.position
            if count > left // least:
                raise GGUFError(
                    f"the header counts {count} {name}, but the {left} bytes left hold at most "
                    f"{left // least}; the file is truncated or corrupt"
                )
        return version, n_tensors, n_keys

    def _entry(self, index: int) -> tuple[str, Value]:
        key = self._name(f"metadata key {index}", MAX_KEY_BYTES)
        what = f"metadata key {index} {key!r}"
        value_type = self._value_type(what, "has")
        if value_type == ValueType.ARRAY:
            return key, self._array(what)
        if value_type == ValueType.STRING:
            return key, _text(self._string(what))
        form = _FORMATS[value_type]
        if self.size - self.position < form.size:
            raise self._truncated(what, form.size)
        (value,) = form.unpack_from(self.data, self.position)
        self.position += form.size
        if value_type != ValueType.BOOL:
            if key == "general.alignment" and value_type != ValueType.U32:
                raise GGUFError(
                    f"metadata key 'general.alignment' is of type {value_type.name.lower()}, "
                    "expected u32"
                )
            return key, value
        if value > 1:
            raise GGUFError(f"{what} is a bool of value {value}, expected 0 or 1")
        return key, bool(value)

    def _value_type(self, what: str, verb: str) -> ValueType:
        number = self._number(_U32, what)
        if number > ValueType.F64:
            raise GGUFError(f"{what} {verb} unknown value type {number}; types 0 to 12 are known")
        return ValueType(number)

    def _array(self, what: str) -> GGUFArray:
        element_type = self._value_type(what, "is an array of")
        if element_type == ValueType.ARRAY:
            raise GGUFError(f"{what} is an array of arrays, which is not supported")
        length = self._number(_U64, what)
        start = self.position
        width = 8 if element_type == ValueType.STRING else _FORMATS[element_type].size
        left = self.size - start
        if length > left // width:
            raise GGUFError(
                f"{what} is an array of {length} elements, but the {left} bytes left hold at most "
                f"{left // width}; the file is truncated or corrupt"
            )
        if element_type == ValueType.STRING:
            self.position = self._skip_strings(what, length)
        else:
            self.position += length * width
        return GGUFArray(self.path, element_type, length, start, self.position - start)

    def _skip_strings(self, what: str, length: int) -> int:
        """Where ``length`` strings end. The one loop that runs per token."""
        unpack, data, position = _U64.unpack_from, self.data, self.position
        try:
            for _ in repeat(None, length):
                position += unpack(data, position)[0] + 8
        except (struct.error, OverflowError):  # the next length lies past the end
            position = self.size + 1
        if position > self.size:
            raise GGUFError(
                f"file ends at byte {self.size} in the strings of {what}; the file is truncated "
                "or corrupt"
            )
        return position

    def _alignment(self, metadata: Mapping[str, Value]) -> int:
        value = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if not isinstance(value, int) or isinstance(value, bool):
            raise GGUFError("metadata key 'general.alignment' is not an integer, expected u32")
        if not 0 < value <= MAX_ALIGNMENT or value & (value - 1):
            raise GGUFError(
                f"general.alignment is {value}, expected a power of two of at most {MAX_ALIGNMENT}"
            )
        return value

    def _tensor(self, index: int, alignment: int) -> TensorInfo:
        """A tensor whose offset still counts from the start of the data."""
        name = self._name(f"tensor {index}", MAX_NAME_BYTES)
        what = f"tensor {name!r}"
        n_dims = self._number(_U32, what)
        if not 1 <= n_dims <= MAX_DIMS:
            raise GGUFError(f"{what} has {n_dims} dimensions, expected 1 to {MAX_DIMS}")
        signed = _FORMATS[ValueType.I64]
        shape = tuple(self._number(signed, what) for _ in range(n_dims))
        elements = 1
        for dim, extent in enumerate(shape):
            if extent < 1:
                raise GGUFError(
                    f"{what} has extent {extent} in dimension {dim}, expected at least 1"
                )
            elements *= extent
        dtype = self._tensor_type(what)
        if shape[0] % dtype.block_size:
            raise GGUFError(
                f"{what} has rows of {shape[0]} elements; type {dtype.name} needs a multiple of "
                f"its block of {dtype.block_size}"
            )
        nbytes = elements // dtype.block_size * dtype.type_size
        if elements > _MAX_INT64 or nbytes > _MAX_INT64:
            raise GGUFError(f"the size of {what} overflows: extents {shape}")
        offset = self._number(_U64, what)
        if offset % alignment:
            raise GGUFError(f"{what} has data offset {offset}, expected a multiple of {alignment}")
        return TensorInfo(name, dtype, shape, offset, nbytes)

    def _tensor_type(self, what: str) -> DType:
        number = self._number(_U32, what)
        if number in _REMOVED_TYPES:
            raise GGUFError(
                f"{what} has type {_REMOVED_TYPES[number]} ({number}), which ggml has removed; "
                "quantize the model again"
            )
        if number not in DType._value2member_map_ or number == DType.FROM_FILE:
            raise GGUFError(f"{what} has unknown ggml type {number}")
        return DType(number)

    def _place(self, relative: Mapping[str, TensorInfo], data_offset: int) -> dict[str, TensorInfo]:
        """The tensors with offsets in the file, within it and apart from each other."""
        tensors = {}
        for name, tensor in relative.items():
            begin = data_offset + tensor.offset
            end = begin + tensor.nbytes
            if end > self.size:
                raise GGUFError(
                    f"file ends at byte {self.size}, but tensor {name!r} needs bytes {begin} to "
                    f"{end}; the file is truncated or corrupt"
                )
            tensors[name] = TensorInfo(name, tensor.type, tensor.shape, begin, tensor.nbytes)
        ordered = sorted(tensors.values(), key=lambda t: t.offset)
        for before, after in pairwise(ordered):
            if after.offset < before.offset + before.nbytes:
                raise GGUFError(
                    f"tensors {before.name!r} and {after.name!r} overlap at byte {after.offset}"
                )
        return tensors
