"""Reads what a ``.pte`` file holds, without importing PyTorch or ExecuTorch.

ExecuTorch's own reader (``executorch.exir._serialize``) costs ten seconds of imports. The
file is a FlatBuffer of the schema ``program.fbs``, whose fields only grow at their ends, with
segments of data behind it; the slots below are the fields' places in that schema. Nothing
in the file is trusted: offsets and counts are checked against its size.
"""

from __future__ import annotations

import mmap
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

_IDENTIFIER: Final = b"ET"
_HEADER_MAGIC: Final = b"eh00"

# KernelTypes, the union of values.
_NULL, _INT, _BOOL, _DOUBLE, _TENSOR, _STRING, _INT_LIST, _DOUBLE_LIST, _BOOL_LIST = range(1, 10)
# InstructionArguments, the union of instructions.
_KERNEL_CALL, _DELEGATE_CALL = 1, 2
_INLINE: Final = 0  # DataLocation


class PteError(ValueError):
    """The file is no well-formed ExecuTorch program; the text says where it breaks."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor argument; ``sizes`` are upper bounds where ``is_dynamic``."""

    scalar_type: int
    sizes: tuple[int, ...]
    is_dynamic: bool


#: A tensor, or the value of a constant.
Argument: TypeAlias = "TensorSpec | bool | int | float | str | tuple[int | float, ...] | None"


@dataclass(frozen=True)
class Delegate:
    """A part of a method that a backend runs. ``blob`` is what the backend made of it."""

    backend: str
    blob: bytes
    compile_specs: Mapping[str, bytes]


@dataclass(frozen=True)
class Method:
    """One entry of the program.

    ``kernel_calls`` counts the ops that ExecuTorch's own kernels run, ``delegate_calls`` the
    calls of delegates; ``planned_bytes`` is the memory planned for tensors between them.
    """

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    delegates: tuple[Delegate, ...]
    kernel_calls: Mapping[str, int]
    delegate_calls: int
    planned_bytes: int

    @property
    def is_constant(self) -> bool:
        """Whether it only returns a value, such as ``get_vocab_size``."""
        tensors = any(isinstance(output, TensorSpec) for output in self.outputs)
        return not self.inputs and not self.delegates and not self.kernel_calls and not tensors


@dataclass(frozen=True)
class PteFile:
    """An ExecuTorch program. Sizes are in bytes.

    ``named_data`` is the size of each entry: weights that delegates look up by key.
    """

    path: Path
    n_bytes: int
    version: int
    methods: tuple[Method, ...]
    named_data: Mapping[str, int]
    constant_bytes: int

    @staticmethod
    def open(path: Path) -> PteFile:
        """Read ``path``.

        Raises:
            OSError: it cannot be read.
            PteError: it is no program, or a damaged one.
        """
        with path.open("rb") as file:
            n_bytes = file.seek(0, 2)
            if n_bytes < 8:
                raise PteError(f"{path}: {n_bytes} bytes are no ExecuTorch program")
            # Weights may make it larger than memory.
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                try:
                    return _Reader(data, path).read()
                except PteError as error:
                    raise PteError(f"{path}: {error}") from None
                except (struct.error, UnicodeDecodeError, OverflowError) as error:
                    raise PteError(f"{path}: damaged ExecuTorch program ({error})") from error


class _Buffer:
    """The FlatBuffer's bytes. Records read are limited by its size, whatever it claims."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._budget = len(data)

    def unpack(self, code: str, position: int) -> Any:
        if position < 0:
            raise PteError("damaged: an offset points before the start")
        (value,) = struct.unpack_from("<" + code, self.data, position)
        return value

    def spend(self, records: int) -> None:
        self._budget -= records
        if self._budget < 0:
            raise PteError("damaged: more records than bytes")


class _Table:
    """A FlatBuffer table; a field is found by its slot, its place in the schema."""

    def __init__(self, buffer: _Buffer, position: int) -> None:
        buffer.spend(1)
        self._buffer = buffer
        self._position = position
        self._vtable = position - buffer.unpack("i", position)
        self._n_slots = (buffer.unpack("H", self._vtable) - 4) // 2

    def _field(self, slot: int) -> int | None:
        if slot >= self._n_slots:
            return None
        offset = self._buffer.unpack("H", self._vtable + 4 + 2 * slot)
        return self._position + offset if offset else None

    def _target(self, slot: int) -> int | None:
        field = self._field(slot)
        return None if field is None else field + int(self._buffer.unpack("I", field))

    def number(self, slot: int, code: str, default: int | float = 0) -> Any:
        field = self._field(slot)
        return default if field is None else self._buffer.unpack(code, field)

    def table(self, slot: int) -> _Table | None:
        target = self._target(slot)
        return None if target is None else _Table(self._buffer, target)

    def _vector(self, slot: int, width: int) -> tuple[int, int]:
        """Place of the first element, and how many there are."""
        target = self._target(slot)
        if target is None:
            return 0, 0
        count = int(self._buffer.unpack("I", target))
        if target + 4 + count * width > len(self._buffer.data):
            raise PteError(f"damaged: {count} elements do not fit into the file")
        return target + 4, count

    def raw(self, slot: int) -> bytes:
        start, count = self._vector(slot, 1)
        return self._buffer.data[start : start + count]

    def text(self, slot: int) -> str:
        return self.raw(slot).decode()

    def numbers(self, slot: int, code: str) -> tuple[Any, ...]:
        start, count = self._vector(slot, struct.calcsize("<" + code))
        self._buffer.spend(count)
        return struct.unpack_from(f"<{count}{code}", self._buffer.data, start)

    def tables(self, slot: int) -> list[_Table]:
        start, count = self._vector(slot, 4)
        places = range(start, start + 4 * count, 4)
        return [_Table(self._buffer, p + int(self._buffer.unpack("I", p))) for p in places]

    def union(self, slot: int) -> tuple[int, _Table | None]:
        """The kind and the content of a union whose kind is in ``slot``."""
        return int(self.number(slot, "B")), self.table(slot + 1)


class _Reader:
    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self._data, self._path = data, path
        if data[4:6] != _IDENTIFIER:
            raise PteError("no ExecuTorch program: expected 'ET' at byte 4")
        self._program_size, self._segment_base = len(data), 0
        if data[8:12] == _HEADER_MAGIC:
            self._program_size, self._segment_base = struct.unpack_from("<QQ", data, 16)
            if self._program_size > len(data) or self._segment_base > len(data):
                raise PteError(
                    f"cut short: {len(data)} bytes, but its header tells of at least "
                    f"{max(self._program_size, self._segment_base)}"
                )
        self._buffer = _Buffer(data[: self._program_size])

    def read(self) -> PteFile:
        root = _Table(self._buffer, self._buffer.unpack("I", 0))
        self._inline = root.tables(3)
        self._segments = [(s.number(0, "Q"), s.number(1, "Q")) for s in root.tables(4)]
        for index, (offset, size) in enumerate(self._segments):
            if self._segment_base + offset + size > len(self._data):
                raise PteError(
                    f"cut short: segment {index} ends at byte "
                    f"{self._segment_base + offset + size} of {len(self._data)}"
                )
        constants = sum(len(buffer.raw(0)) for buffer in root.tables(2))
        segment = root.table(5)
        if segment is not None and segment.numbers(1, "Q"):
            constants += self._segment(segment.number(0, "I"))[1]
        return PteFile(
            path=self._path,
            n_bytes=len(self._data),
            version=int(root.number(0, "I")),
            methods=tuple(self._method(plan) for plan in root.tables(1)),
            named_data={
                entry.text(0): self._segment(entry.number(1, "I"))[1] for entry in root.tables(7)
            },
            constant_bytes=constants,
        )

    def _segment(self, index: int) -> tuple[int, int]:
        """Place in the file and size."""
        if index >= len(self._segments):
            raise PteError(f"damaged: segment {index} of {len(self._segments)}")
        offset, size = self._segments[index]
        return self._segment_base + offset, size

    def _method(self, plan: _Table) -> Method:
        values = plan.tables(2)
        operators = [_operator_name(op) for op in plan.tables(6)]
        kernels: Counter[str] = Counter()
        delegate_calls = 0
        for chain in plan.tables(5):
            for instruction in chain.tables(2):
                kind, call = instruction.union(0)
                if kind == _KERNEL_CALL and call is not None:
                    kernels[_at(operators, call.number(0, "i"), "operator")] += 1
                delegate_calls += kind == _DELEGATE_CALL
        return Method(
            name=plan.text(0),
            inputs=tuple(self._value(values, i) for i in plan.numbers(3, "i")),
            outputs=tuple(self._value(values, i) for i in plan.numbers(4, "i")),
            delegates=tuple(self._delegate(d) for d in plan.tables(7)),
            kernel_calls=dict(kernels),
            delegate_calls=delegate_calls,
            planned_bytes=sum(plan.numbers(8, "q")),
        )

    def _value(self, values: list[_Table], index: int) -> Argument:
        kind, value = _at(values, index, "value").union(0)
        if value is None:
            return None
        if kind == _TENSOR:
            dynamic = value.number(8, "b") != 0
            return TensorSpec(int(value.number(0, "b")), value.numbers(2, "i"), dynamic)
        if kind == _INT:
            return int(value.number(0, "q"))
        if kind == _BOOL:
            return bool(value.number(0, "B"))
        if kind == _DOUBLE:
            return float(value.number(0, "d", 0.0))
        if kind == _STRING:
            return str(value.text(0))
        if kind == _INT_LIST:
            # The elements are values themselves.
            return tuple(self._integer(values, int(i)) for i in value.numbers(0, "q"))
        if kind == _DOUBLE_LIST:
            return tuple(float(x) for x in value.numbers(0, "d"))
        if kind == _BOOL_LIST:
            return tuple(bool(b) for b in value.numbers(0, "B"))
        return None

    def _integer(self, values: list[_Table], index: int) -> int:
        kind, value = _at(values, index, "value").union(0)
        return int(value.number(0, "q")) if kind == _INT and value is not None else 0

    def _delegate(self, delegate: _Table) -> Delegate:
        place = delegate.table(1)
        if place is None:
            raise PteError(f"damaged: delegate '{delegate.text(0)}' has no data")
        index = place.number(1, "I")
        if place.number(0, "b") == _INLINE:
            blob = _at(self._inline, index, "delegate").raw(0)
        else:
            offset, size = self._segment(index)
            blob = self._data[offset : offset + size]
        specs = {spec.text(0): spec.raw(1) for spec in delegate.tables(2)}
        return Delegate(delegate.text(0), bytes(blob), specs)


def _operator_name(operator: _Table) -> str:
    name, overload = operator.text(0), operator.text(1)
    return f"{name}.{overload}" if overload else name


def _at(items: list[Any], index: int, what: str) -> Any:
    if not 0 <= index < len(items):
        raise PteError(f"damaged: {what} {index} of {len(items)}")
    return items[index]
