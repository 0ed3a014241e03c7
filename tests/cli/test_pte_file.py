"""The reader of ``.pte`` files: what it reads, and that damage is an error."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from executorch_ggml.cli.pte_file import Delegate, PteError, PteFile, TensorSpec
from executorch_ggml.ir.serialize import from_bytes
from tests.cli.conftest import Model


def test_equals_executorchs_own_reader(linear: Path, mixed: Path, model: Model) -> None:
    from executorch.exir._serialize._program import deserialize_pte_binary
    from executorch.exir.schema import DelegateCall, KernelCall

    for path in (linear, mixed, model.pte):
        theirs = deserialize_pte_binary(path.read_bytes())
        ours = PteFile.open(path)
        assert ours.n_bytes == path.stat().st_size
        data = theirs.named_data
        sizes = (
            {k: len(data.buffers[e.buffer_index]) for k, e in data.pte_data.items()} if data else {}
        )
        assert dict(ours.named_data) == sizes
        assert [m.name for m in ours.methods] == [p.name for p in theirs.program.execution_plan]
        for method, plan in zip(ours.methods, theirs.program.execution_plan, strict=True):
            calls = [i.instr_args for chain in plan.chains for i in chain.instructions]
            assert method.delegate_calls == sum(isinstance(c, DelegateCall) for c in calls)
            names = [
                f"{op.name}.{op.overload}" if op.overload else op.name for op in plan.operators
            ]
            kernels = [names[c.op_index] for c in calls if isinstance(c, KernelCall)]
            assert method.kernel_calls == {name: kernels.count(name) for name in kernels}
            assert method.planned_bytes == sum(plan.non_const_buffer_sizes)
            inline = theirs.program.backend_delegate_data
            assert method.delegates == tuple(
                Delegate(
                    d.id, inline[d.processed.index].data, {s.key: s.value for s in d.compile_specs}
                )
                for d in plan.delegates
            )
            for spec, index in zip(method.inputs, plan.inputs, strict=True):
                tensor = plan.values[index].val
                assert isinstance(spec, TensorSpec)
                assert (spec.scalar_type, list(spec.sizes)) == (
                    int(tensor.scalar_type),
                    tensor.sizes,
                )
                assert spec.is_dynamic == (int(tensor.shape_dynamism) != 0)


def test_values_of_constant_methods(tmp_path: Path) -> None:
    from executorch.exir import to_edge

    exported = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    constants = {"an_int": -5, "a_bool": True, "a_float": 0.5, "a_text": "words", "some": [1, 2, 3]}
    edge = to_edge(exported, constant_methods=constants)
    path = tmp_path / "constants.pte"
    path.write_bytes(edge.to_executorch().buffer)
    methods = {m.name: m for m in PteFile.open(path).methods}
    assert {n: m.outputs for n, m in methods.items() if m.is_constant} == {
        "an_int": (-5,),
        "a_bool": (True,),
        "a_float": (0.5,),
        "a_text": ("words",),
        "some": (1, 2, 3),
    }
    assert not methods["forward"].is_constant
    assert methods["forward"].kernel_calls == {"aten::relu.out": 1}


def test_blobs_are_programs(mixed: Path) -> None:
    (method,) = PteFile.open(mixed).methods
    assert [from_bytes(d.blob).graphs[0].name for d in method.delegates] == ["forward", "forward"]


@pytest.mark.parametrize("content", [b"", b"1234567", b"GGUF\x03\0\0\0rest", b"\0" * 64])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.pte"
    path.write_bytes(content)
    with pytest.raises(PteError, match="ExecuTorch program"):
        PteFile.open(path)


def test_every_shorter_file_is_refused(linear: Path, tmp_path: Path) -> None:
    whole = linear.read_bytes()
    path = tmp_path / "cut.pte"
    # The last bytes are padding behind the last segment.
    end = max(_segment_ends(whole))
    for size in range(0, end, 7):
        path.write_bytes(whole[:size])
        with pytest.raises(PteError):
            PteFile.open(path)


def _segment_ends(whole: bytes) -> list[int]:
    from executorch.exir._serialize._program import _flatbuffer_to_program, _get_extended_header

    header = _get_extended_header(whole)
    assert header is not None
    program = _flatbuffer_to_program(whole[: header.program_size])
    return [header.segment_base_offset + s.offset + s.size for s in program.segments]


def test_damage_is_an_error_or_harmless(mixed: Path, model: Model, tmp_path: Path) -> None:
    """Any damage gives a PteError or a file that reads; nothing else, and never for long."""
    choose = random.Random(0)
    path = tmp_path / "damaged.pte"
    refused = 0
    for whole in (mixed.read_bytes(), model.pte.read_bytes()):
        for _ in range(1500):
            damaged = bytearray(whole)
            for _ in range(choose.randint(1, 4)):
                place = choose.randrange(min(len(whole), 4096))
                width = choose.choice((1, 4))
                damaged[place : place + width] = choose.choice(
                    (choose.randbytes(width), b"\xff" * width, b"\0" * width, b"\x7f" * width)
                )
            path.write_bytes(damaged)
            try:
                PteFile.open(path)
            except PteError:
                refused += 1
    assert refused > 300
