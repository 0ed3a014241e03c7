"""The language models that are measured: files, made once, and what a token reads of them.

python -m bench.models model.gguf                # that, as JSON
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.machine import CACHE, ROOT, progress, run_child

#: What tests/gguf_models.py writes; llama-quantize makes the others from its F16 file.
WRITTEN = ("F32", "F16", "BF16", "Q8_0")
#: The text of the first-token measure: one token a letter for the random models' tokenizer,
#: about one a word for real ones.
PROMPTS = {"random": "Hello", "file": "The capital of France is"}


@dataclass(frozen=True)
class Model:
    """A file to measure.

    Attributes:
        name: of the row in tables.
        type_name: ggml type of its matrices; "" for a file of the user's own.
        program: its ``.pte``.
        prompt: a text of about five tokens.
    """

    name: str
    type_name: str
    gguf: Path
    program: Path
    prompt: str


@dataclass(frozen=True)
class Reads:
    """What decoding a token reads.

    Attributes:
        weight_bytes: of all matrices; an embedding only where it is the output's matrix too,
            since of another one a token reads a row.
        n_weights: elements of the same matrices.
        position_elements: of cached keys and values, for each position that is attended to.
    """

    weight_bytes: int
    n_weights: int
    position_elements: int


def counted_matrices(shapes: Mapping[str, tuple[int, ...]]) -> set[str]:
    """The tensors of a decoder's GGUF that a token reads whole, norms and biases aside."""
    tied = "output.weight" not in shapes
    return {
        name
        for name, shape in shapes.items()
        if len(shape) > 1 and (tied or name != "token_embd.weight")
    }


def position_elements(metadata: Mapping[str, int]) -> int:
    """Keys and values of one position in all layers, from a GGUF's metadata by short name."""
    head = metadata["embedding_length"] // metadata["attention.head_count"]
    kv_heads = metadata.get("attention.head_count_kv", metadata["attention.head_count"])
    lengths = (metadata.get(f"attention.{part}_length", head) for part in ("key", "value"))
    return metadata["block_count"] * kv_heads * sum(lengths)


def read_header(path: Path) -> Reads:
    """:class:`Reads` of a file. Takes memory for its vocabulary: see :func:`reads`."""
    import gguf

    reader = gguf.GGUFReader(os.fspath(path))
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    counted = counted_matrices({n: tuple(map(int, t.shape)) for n, t in tensors.items()})
    architecture = reader.fields["general.architecture"].contents()
    prefix = f"{architecture}."
    metadata = {
        name.removeprefix(prefix): value
        for name, field in reader.fields.items()
        if name.startswith(prefix) and isinstance(value := field.contents(), int)
    }
    return Reads(
        weight_bytes=sum(int(tensors[name].n_bytes) for name in counted),
        n_weights=sum(int(tensors[name].n_elements) for name in counted),
        position_elements=position_elements(metadata),
    )


def reads(path: Path) -> Reads:
    """:class:`Reads` of a file, found by a process of its own: this one's memory stays small."""
    return Reads(**json.loads(run_child([sys.executable, "-m", "bench.models", path]).out))


def random_gguf(type_name: str, quantizer: Path) -> Path:
    """Qwen3-0.6B's shape with seeded random weights, made once.

    What ``llama-quantize`` makes has its own choice of types for some matrices: with Q4_0 and
    Q4_K_M the embedding, which is the output's matrix too, is Q6_K.
    """
    path = CACHE / f"qwen3-0.6b-{type_name.lower()}.gguf"
    if path.is_file():
        return path
    CACHE.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    if type_name in WRITTEN:
        maker = ROOT / "tests" / "gguf_models.py"
        progress(f"writing {path.name}")
        run_child([sys.executable, maker, partial, "--type", type_name])
    else:
        source = random_gguf("F16", quantizer)
        progress(f"writing {path.name}")
        run_child([quantizer, source, partial, type_name])
    partial.rename(path)
    return path


def exported(gguf: Path, program: Path, reuse: bool) -> Path:
    """The program of a model's file; written anew unless ``reuse`` and there is one."""
    if not (reuse and program.is_file()):
        progress(f"exporting {program.name}")
        command: list[str | Path] = [sys.executable, "-m", "executorch_ggml.cli.main", "export"]
        run_child([*command, gguf, "-o", program])
    return program


def models(
    type_names: Iterable[str], files: Iterable[Path], quantizer: Path, reuse: bool
) -> list[Model]:
    """The random model in each type, which share a program, and files of the user's own."""
    found: list[Model] = []
    shared = CACHE / "qwen3-0.6b.pte"
    for type_name in type_names:
        gguf = random_gguf(type_name, quantizer)
        program = exported(gguf, shared, reuse or bool(found))
        found.append(Model(f"Qwen3-0.6B {type_name}", type_name, gguf, program, PROMPTS["random"]))
    for file in files:
        path = file.resolve()
        CACHE.mkdir(parents=True, exist_ok=True)
        program = exported(path, CACHE / f"{path.stem}.pte", reuse)
        found.append(Model(path.stem, "", path, program, PROMPTS["file"]))
    return found


if __name__ == "__main__":
    print(json.dumps(asdict(read_header(Path(sys.argv[1])))))
