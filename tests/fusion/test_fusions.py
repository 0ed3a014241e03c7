"""Fusions on a decoder as transformers writes it: matches, equal results, what is left."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from executorch_ggml import GgmlOptions
from executorch_ggml.fusion import fuse
from executorch_ggml.lowering.registry import op_name
from tests.harness import lower, run_reference, run_runtime

LAYERS = 2


class _Decoder(nn.Module):
    """Token ids, positions and an additive mask in; logits out; no cache."""

    def __init__(self, rope: dict[str, object]) -> None:
        super().__init__()
        torch.manual_seed(0)
        config = transformers.Qwen3Config(
            vocab_size=96,
            hidden_size=64,
            intermediate_size=80,
            num_hidden_layers=LAYERS,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            max_position_embeddings=256,
            rope_parameters=rope,
            attn_implementation="sdpa",
        )
        self.model = transformers.AutoModelForCausalLM.from_config(config)
        for parameter in self.model.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.15)

    def forward(self, ids: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        out = self.model(ids, attention_mask=mask, position_ids=positions, use_cache=False)
        logits: Tensor = out.logits
        return logits


def _inputs(length: int, start: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(0, 96, (1, length), generator=generator)
    mask = torch.full((length, length), -torch.inf).triu(1)[None, None]
    return ids, torch.arange(start, start + length)[None], mask


_LENGTH = Dim("length", min=2, max=64)
_SHAPES = ({1: _LENGTH}, {1: _LENGTH}, {2: _LENGTH, 3: _LENGTH})

ROPES: dict[str, dict[str, object]] = {
    "default": {"rope_type": "default", "rope_theta": 1e6},
    # Frequencies that are no power law, and a scale of cosine and sine.
    "yarn": {
        "rope_type": "yarn",
        "rope_theta": 1e4,
        "factor": 4.0,
        "original_max_position_embeddings": 32,
    },
}


def _exported(module: nn.Module) -> ExportedProgram:
    return export(module.eval(), _inputs(5), dynamic_shapes=_SHAPES, strict=False)


@pytest.mark.parametrize("rope", ROPES.values(), ids=ROPES)
def test_fused_program_still_runs_in_pytorch(rope: dict[str, object]) -> None:
    module = _Decoder(rope)
    program = _exported(module)
    fused = copy.deepcopy(program)
    matches = fuse(fused, GgmlOptions())
    assert matches == Counter(rms_norm=4 * LAYERS + 1, rope=2 * LAYERS, gqa=LAYERS, swiglu=LAYERS)
    ops = Counter(op_name(n.target) for n in fused.graph.nodes if n.op == "call_function")
    assert ops["ggml.rms_norm.default"] == 4 * LAYERS + 1
    assert ops["ggml.rope.default"] == 2 * LAYERS
    assert ops["ggml.swiglu.default"] == LAYERS
    for inputs in (_inputs(5), _inputs(9, start=40)):
        expected = module(*inputs)
        assert expected.std() > 1
        torch.testing.assert_close(fused.module()(*inputs), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rope", ROPES.values(), ids=ROPES)
def test_lowered_whole_and_equal_to_eager(rope: dict[str, object]) -> None:
    module = _Decoder(rope)
    options = GgmlOptions(strict=True, expect_fusions=("rms_norm", "rope", "gqa", "swiglu"))
    lowered = lower(module, _inputs(5), _SHAPES, options)
    counts = Counter(lowered.ops)
    assert counts["rms_norm"] == 4 * LAYERS + 1
    assert counts["rope"] == 2 * LAYERS
    assert counts["attention"] == LAYERS
    assert counts["glu"] == LAYERS
    assert counts["mul_mat"] == 7 * LAYERS + 1
    assert not {"permute", "cont", "repeat"} & set(counts), "layout changes are left"
    for inputs in (_inputs(5), _inputs(2), _inputs(9, start=40)):
        expected = module(*inputs)
        for run in (run_reference, run_runtime):
            (actual,) = run(lowered, inputs)
            torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)


class _LooksLikeRmsNorm(nn.Module):
    """The mean is over another tensor: no norm."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)


class _LooksLikeSwiGlu(nn.Module):
    """The activation is used twice: fusing would compute it twice."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        activated = nn.functional.silu(x)
        return activated * y + activated


@pytest.mark.parametrize("module", [_LooksLikeRmsNorm(), _LooksLikeSwiGlu()])
def test_lookalikes_are_left_alone(module: nn.Module) -> None:
    program = export(module, (torch.randn(2, 4), torch.randn(2, 4)))
    assert not +fuse(program, GgmlOptions())
