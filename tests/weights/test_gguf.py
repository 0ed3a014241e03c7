"""The GGUF header reader: against the ``gguf`` package's, and on malformed files."""

from __future__ import annotations

import random
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter

from executorch_ggml.ir.types import DType
from executorch_ggml.weights.gguf import GGUFArray, GGUFError, GGUFFile, ValueType

# The types that the peer knows too: a newer ggml has more. Q8_1 is what ggml
# quantizes activations to; the peer has its size wrong (ggml asserts 36 bytes).
FILE_TYPES = [t for t in DType if t.value in set(GGMLQuantizationType) and t != DType.Q8_1]


def write(path: Path, arch: str = "llama") -> GGUFWriter:
    return GGUFWriter(path, arch)


def close(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file with every value type and every tensor type, written by the peer."""
    path = tmp_path_factory.mktemp("gguf") / "sample.gguf"
    writer = write(path)
    writer.add_uint8("t.u8", 200)
    writer.add_int8("t.i8", -5)
    writer.add_uint16("t.u16", 60000)
    writer.add_int16("t.i16", -300)
    writer.add_uint32("llama.context_length", 2048)
    writer.add_int32("t.i32", -70000)
    writer.add_uint64("t.u64", 2**64 - 1)
    writer.add_int64("t.i64", -5_000_000_000)
    writer.add_float32("t.f32", 0.5)
    writer.add_float64("t.f64", 0.1)
    writer.add_bool("t.bool", True)
    writer.add_string("general.name", "größe")
    writer.add_array("tokenizer.ggml.tokens", ["<s>", "", "▁the", "x" * 300])
    writer.add_array("tokenizer.ggml.token_type", [3, -1, 6])
    writer.add_array("tokenizer.ggml.scores", [0.5, -2.0])
    writer.add_array("t.flags", [True, False])
    rng = np.random.default_rng(0)
    for dtype in FILE_TYPES:
        kind = GGMLQuantizationType(dtype.value)
        row_bytes = 2 * dtype.type_size
        data = rng.integers(0, 256, size=(3, row_bytes), dtype=np.uint8)
        writer.add_tensor(f"w.{dtype.name}", data, raw_dtype=kind)
    writer.add_tensor("conv.weight", rng.random((5, 4, 3, 2), dtype=np.float32))
    writer.add_tensor("norm.weight", np.ones(7, dtype=np.float16))
    close(writer)
    return path


def test_types_are_the_peers() -> None:
    """Every type that the gguf package knows, with its block's elements and bytes."""
    peers = {t.name: t.value for t in GGMLQuantizationType}
    assert peers.items() <= {t.name: t.value for t in DType}.items()
    for dtype in FILE_TYPES:
        sizes = GGML_QUANT_SIZES[GGMLQuantizationType(dtype.value)]
        assert (dtype.block_size, dtype.type_size) == sizes, dtype.name
    assert {t.value for t in ValueType} == {t.value for t in GGUFValueType}


def test_agrees_with_the_gguf_package(sample: Path) -> None:
    ours, peer = GGUFFile.open(sample), GGUFReader(sample)
    assert ours.version == 3
    assert ours.alignment == peer.alignment
    assert ours.data_offset == peer.data_offset
    assert list(ours.tensors) == [t.name for t in peer.tensors]
    for tensor in peer.tensors:
        info = ours.tensors[tensor.name]
        assert info.name == tensor.name
        assert info.type.value == tensor.tensor_type.value
        assert info.shape == tuple(int(n) for n in tensor.shape)
        assert info.torch_shape == info.shape[::-1]
        assert info.offset == tensor.data_offset
        assert info.nbytes == tensor.n_bytes
        assert ours.read_tensor(tensor.name) == tensor.data.tobytes()
    keys = [key for key in peer.fields if not key.startswith("GGUF.")]
    assert list(ours.metadata) == keys
    for key in keys:
        value: Any = ours.metadata[key]
        if isinstance(value, GGUFArray):
            assert len(value) == len(peer.fields[key].data)
            value = value.read()
        assert value == peer.fields[key].contents(), key
        assert type(value) is type(peer.fields[key].contents()), key


def test_typed_access(sample: Path) -> None:
    file = GGUFFile.open(sample)
    assert file.architecture == "llama"
    assert file.get_int("llama.context_length") == 2048
    assert file.get_int("absent", 7) == 7
    assert file.get_float("t.f64") == 0.1
    assert file.get_float("t.u8") == 200.0
    assert isinstance(file.get_float("t.u8"), float)
    assert file.get_bool("t.bool") is True
    assert file.get_bool("absent", False) is False
    assert file.get_str("general.name") == "größe"
    assert file.get_array("t.flags") == [True, False]
    assert file.get_array("tokenizer.ggml.token_type") == [3, -1, 6]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda f: f.get_int("absent"), "no metadata key 'absent', expected an integer"),
        (lambda f: f.get_int("t.bool"), "'t.bool' is True, expected an integer"),
        (lambda f: f.get_int("t.f32"), "'t.f32' is 0.5, expected an integer"),
        (lambda f: f.get_float("t.bool"), "expected a number"),
        (lambda f: f.get_str("t.u8"), "'t.u8' is 200, expected a string"),
        (lambda f: f.get_str("t.u8", "x"), "expected a string"),
        (lambda f: f.get_bool("t.u8"), "expected a bool"),
        (lambda f: f.get_array("t.u8"), "'t.u8' is 200, expected an array"),
        (lambda f: f.get_str("t.flags"), "'t.flags' is an array, expected a string"),
        (lambda f: f.read_tensor("absent"), "no tensor 'absent'"),
    ],
)
def test_access_names_the_key(sample: Path, ask: Any, message: str) -> None:
    with pytest.raises(GGUFError, match=message) as caught:
        ask(GGUFFile.open(sample))
    assert str(sample) in str(caught.value)


def test_other_alignment(tmp_path: Path) -> None:
    path = tmp_path / "wide.gguf"
    writer = write(path)
    writer.add_custom_alignment(256)
    writer.add_tensor("a", np.ones(3, dtype=np.float32))
    writer.add_tensor("b", np.full(3, 2, dtype=np.float32))
    close(writer)
    file = GGUFFile.open(path)
    assert file.alignment == 256
    assert file.tensors["b"].offset == file.data_offset + 256
    assert file.read_tensor("b") == np.full(3, 2, dtype=np.float32).tobytes()


def test_a_large_vocabulary_is_stepped_over(tmp_path: Path) -> None:
    """Arrays are not read: two of 150k strings take milliseconds, not seconds."""
    path = tmp_path / "vocab.gguf"
    writer = write(path)
    tokens = [f"token{i}" for i in range(150_000)]
    writer.add_array("tokenizer.ggml.tokens", tokens)
    writer.add_array("tokenizer.ggml.merges", tokens)
    writer.add_array("tokenizer.ggml.token_type", [1] * len(tokens))
    writer.add_tensor("a", np.ones(3, dtype=np.float32))
    close(writer)
    start = time.perf_counter()
    file = GGUFFile.open(path)
    assert time.perf_counter() - start < 0.5  # 0.02 on an idle machine
    assert file.get_array("tokenizer.ggml.tokens") == tokens


def test_reading_notices_a_file_that_shrank(sample: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy.gguf"
    path.write_bytes(sample.read_bytes())
    file = GGUFFile.open(path)
    path.write_bytes(b"GGUF")
    with pytest.raises(GGUFError, match="shortened"):
        file.read_tensor("norm.weight")
    with pytest.raises(GGUFError, match="shortened"):
        file.get_array("t.flags")


# Malformed files, put together by hand.


def text(value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def key(name: bytes | str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def tensor(name: bytes | str, ne: list[int], kind: int = 0, offset: int = 0) -> bytes:
    dims = struct.pack(f"<I{len(ne)}q", len(ne), *ne)
    return text(name) + dims + struct.pack("<IQ", kind, offset)


def build(
    keys: list[bytes] | None = None,
    tensors: list[bytes] | None = None,
    *,
    data: int = 64,
    magic: bytes = b"GGUF",
    version: int = 3,
    n_tensors: int | None = None,
    n_keys: int | None = None,
) -> bytes:
    keys, tensors = keys or [], tensors or []
    head = magic + struct.pack(
        "<IQQ",
        version,
        len(tensors) if n_tensors is None else n_tensors,
        len(keys) if n_keys is None else n_keys,
    )
    header = b"".join([head, *keys, *tensors])
    return header + bytes(-len(header) % 32) + bytes(data)


U32, BOOL, STRING, ARRAY, U64, F64 = 4, 7, 8, 9, 10, 12
ONE = struct.pack("<I", 1)

MALFORMED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "three bytes": (b"GGU", "file ends at byte 3 in the header"),
    "magic": (build(magic=b"PK\3\4"), r"not a GGUF file: it starts with b'PK\\x03\\x04'"),
    "version 1": (build(version=1), "version 1 is not supported, expected 2 or 3; convert"),
    "version 4": (build(version=4), "version 4 is not supported"),
    "big-endian": (build(version=0x03000000), "big-endian"),
    "key count": (build(n_keys=2**64 - 1), "counts 18446744073709551615 metadata keys"),
    "tensor count": (build(n_tensors=2**60), "counts 1152921504606846976 tensors"),
    "string length": (
        build([key("s", STRING, struct.pack("<Q", 2**63))]),
        "'s', which starts at byte .* needs 9223372036854775808 bytes",
    ),
    "value type": (build([key("k", 13, bytes(8))]), "'k' has unknown value type 13"),
    "element type": (
        build([key("k", ARRAY, struct.pack("<IQ", 99, 0))]),
        "'k' is an array of unknown value type 99",
    ),
    "nested array": (build([key("k", ARRAY, struct.pack("<IQ", ARRAY, 0))]), "array of arrays"),
    "array length": (
        build([key("k", ARRAY, struct.pack("<IQ", F64, 2**61))]),
        "2305843009213693952 elements",
    ),
    "strings": (
        build([key("k", ARRAY, struct.pack("<IQQ", STRING, 2, 2**64 - 1))]),
        "file ends at byte .* in the strings of metadata key 0 'k'",
    ),
    "strings at the end": (
        build([key("k", ARRAY, struct.pack("<IQQ", STRING, 8, 0))], data=0)[:-8],
        "array of 8 elements|in the strings",
    ),
    "bool": (build([key("b", BOOL, b"\2")]), "bool of value 2"),
    "key twice": (build([key("k", U32, ONE), key("k", U32, ONE)]), "key 'k' occurs twice"),
    "empty key": (build([key("", U32, ONE)]), "metadata key 0 at byte 24 has a bad name"),
    "binary key": (build([key(b"\xff", U32, ONE)]), "bad name"),
    "NUL key": (build([key(b"a\0", U32, ONE)]), "bad name"),
    "alignment 0": (build([key("general.alignment", U32, bytes(4))]), "alignment is 0"),
    "alignment 48": (
        build([key("general.alignment", U32, struct.pack("<I", 48))]),
        "alignment is 48, expected a power of two",
    ),
    "alignment u64": (
        build([key("general.alignment", U64, struct.pack("<Q", 32))]),
        "of type u64, expected u32",
    ),
    "alignment text": (
        build([key("general.alignment", STRING, text("32"))]),
        "is not an integer, expected u32",
    ),
    "tensor twice": (build(None, [tensor("w", [4]), tensor("w", [4], 0, 32)]), "occurs twice"),
    "long name": (build(None, [tensor("n" * 64, [4])]), "bad name .64 bytes"),
    "no name": (build(None, [tensor("", [4])]), "tensor 0 .*bad name"),
    "scalar": (build(None, [tensor("w", [])]), "'w' has 0 dimensions"),
    "five dims": (build(None, [tensor("w", [1] * 5)]), "5 dimensions"),
    "zero extent": (build(None, [tensor("w", [4, 0])]), "extent 0 in dimension 1"),
    "negative extent": (build(None, [tensor("w", [-4])]), "extent -4"),
    "elements": (build(None, [tensor("w", [2**32, 2**32], 24)]), "size of tensor 'w' overflows"),
    "bytes": (build(None, [tensor("w", [2**61], 28)]), "overflows"),
    "block": (build(None, [tensor("w", [48], 8)]), "rows of 48 elements; type Q8_0"),
    "type": (build(None, [tensor("w", [4], 43)]), "unknown ggml type 43"),
    "type 255": (build(None, [tensor("w", [4], 255)]), "unknown ggml type 255"),
    "removed type": (build(None, [tensor("w", [32], 31)]), "Q4_0_4_4 .31., which ggml has removed"),
    "offset": (build(None, [tensor("w", [4], 0, 8)]), "data offset 8, expected a multiple of 32"),
    "outside": (
        build(None, [tensor("w", [16], 0, 32)]),
        "file ends at byte .* tensor 'w' needs bytes",
    ),
    "far outside": (build(None, [tensor("w", [4], 0, 2**64 - 32)]), "needs bytes"),
    "overlap": (
        build(None, [tensor("a", [12]), tensor("w", [4], 0, 32)]),
        "tensors 'a' and 'w' overlap",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_refuses(tmp_path: Path, name: str) -> None:
    data, message = MALFORMED[name]
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(GGUFError, match=message) as caught:
        GGUFFile.open(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_refuses_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(GGUFError, match="not a regular file"):
        GGUFFile.open(tmp_path)
    with pytest.raises(FileNotFoundError):
        GGUFFile.open(tmp_path / "absent.gguf")


def test_the_hand_made_files_differ_from_a_valid_one_only_in_the_fault(tmp_path: Path) -> None:
    path = tmp_path / "good.gguf"
    path.write_bytes(build([key("k", U32, ONE)], [tensor("w", [4]), tensor("v", [8], 0, 32)]))
    file = GGUFFile.open(path)
    assert file.metadata == {"k": 1}
    assert list(file.tensors) == ["w", "v"]
    path.write_bytes(build([key("k", U32, ONE)], [tensor("w", [4])], version=2))
    assert GGUFFile.open(path).version == 2


def test_truncation_at_every_byte_is_an_error(tmp_path: Path) -> None:
    full = build(
        [
            key("k", STRING, text("value")),
            key("a", ARRAY, struct.pack("<IQ", STRING, 1) + text("x")),
        ],
        [tensor("w", [16])],
    )
    path = tmp_path / "cut.gguf"
    for length in range(len(full)):
        path.write_bytes(full[:length])
        with pytest.raises(GGUFError, match=r"ends at byte|truncated|empty"):
            GGUFFile.open(path)


def test_mutations_raise_nothing_but_gguf_errors(tmp_path: Path) -> None:
    """What is accepted lies in the file; what is not raises GGUFError."""
    rng = random.Random(1)
    valid = build(
        [
            key("general.architecture", STRING, text("llama")),
            key("general.alignment", U32, struct.pack("<I", 32)),
            key("t", ARRAY, struct.pack("<IQ", STRING, 2) + text("a") + text("bc")),
            key("n", ARRAY, struct.pack("<IQ3i", 5, 3, 1, 2, 3)),
        ],
        [tensor("w", [32], 8), tensor("v", [4], 0, 64)],
        data=96,
    )
    path = tmp_path / "mutated.gguf"
    accepted = 0
    for _ in range(1500):
        data = bytearray(valid)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            match rng.randrange(4):
                case 0:
                    data[at] ^= 1 << rng.randrange(8)
                case 1:
                    data[at : at + 8] = struct.pack(
                        "<Q", rng.choice([0, 1, 2**31, 2**63, 2**64 - 1])
                    )
                case 2:
                    del data[at : at + rng.randint(1, 16)]
                case _:
                    data[at:at] = data[: rng.randint(1, 40)]
            if not data:
                data = bytearray(1)
        path.write_bytes(data)
        try:
            file = GGUFFile.open(path)
        except GGUFError:
            continue
        accepted += 1
        for info in file.tensors.values():
            assert info.nbytes > 0
            assert info.offset + info.nbytes <= len(data)
        for value in file.metadata.values():
            if isinstance(value, GGUFArray):
                assert len(value.read()) == len(value)
    assert 0 < accepted < 1500
