"""Small models of the families that people export, with random weights and example inputs.

Configurations are transformers' own with small sizes. Default weights would make the
comparison vacuous (a default MobileNetV2 gives 1e-22): :func:`randomized` draws new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.export import Dim

from tests.export.model_blocks import (
    ConformerBlock,
    Tagger,
    UNet,
    WaveRNN,
    densenet,
    inception,
    maxvit,
    mobilenet_v3,
    shufflenet,
    squeezenet,
    vgg,
    wav2letter,
)
from tests.lowering.cases.base import ids, r


@dataclass(frozen=True)
class Family:
    """A model and its inputs.

    ``others``: inputs of other sizes for the same program.
    ``left``: how often which op stays with ExecuTorch; empty: all is delegated.
    ``rtol``: of the largest result.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: tuple[Tensor, ...]
    dynamic_shapes: Any = None
    others: Sequence[tuple[Tensor, ...]] = ()
    left: Mapping[str, int] = field(default_factory=dict)
    rtol: float = 1e-4


class Outputs(nn.Module):
    """A transformers model called with its inputs by name; gives the named results."""

    def __init__(self, model: nn.Module, inputs: str, results: str, **fixed: Any) -> None:
        super().__init__()
        self.model = model
        self.inputs = inputs.split()
        self.results = results.split()
        self.fixed = fixed

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        named = dict(zip(self.inputs, values, strict=True))
        found = self.model(**named, **self.fixed)
        return tuple(getattr(found, name) for name in self.results)


def randomized(model: nn.Module) -> nn.Module:
    """Weights that keep activations near 1 through any depth, and statistics that matter."""
    generator = torch.Generator().manual_seed(7)

    def normal(tensor: Tensor, std: float, mean: float = 0.0) -> None:
        tensor.data.copy_(torch.randn(tensor.shape, generator=generator) * std + mean)

    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.dim() >= 2 and not isinstance(module, nn.Embedding):
                normal(parameter, parameter[0].numel() ** -0.5)
            elif isinstance(module, nn.Embedding):
                normal(parameter, 1.0)
            else:
                normal(parameter, 0.1, 0.0 if "bias" in name else 1.0)
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            assert module.running_mean is not None
            assert module.running_var is not None
            normal(module.running_mean, 0.1)
            module.running_var.copy_(1 + torch.rand(module.running_var.shape, generator=generator))
    return model.eval()


def _randomized(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: randomized(make())


def _transformer(
    model: str, config: Any, inputs: str, results: str, **fixed: Any
) -> Callable[[], nn.Module]:
    """A maker of a transformers model; attention is torch's own."""

    def make() -> nn.Module:
        torch.manual_seed(0)
        return Outputs(randomized(getattr(transformers, model)(config)), inputs, results, **fixed)

    return make


# --- text ------------------------------------------------------------------------------

_TEXT: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
}
_IDS = ids(99, 2, 9)
#: The second text is shorter.
_PADDING = torch.ones(2, 9, dtype=torch.int64)
_PADDING[1, 6:] = 0


class _SentenceEmbedding(nn.Module):
    """MiniLM's use: the mean of the words' states, of length 1."""

    def __init__(self) -> None:
        super().__init__()
        self.model = randomized(transformers.BertModel(transformers.BertConfig(**_TEXT)))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(states.dtype)
        mean = (states * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return F.normalize(mean, dim=1)


_LENGTH = Dim("length", min=1, max=40)


def _bert(dtype: torch.dtype) -> Callable[[], nn.Module]:
    make = _transformer(
        "BertModel",
        transformers.BertConfig(**_TEXT),
        "input_ids attention_mask",
        "last_hidden_state pooler_output",
    )
    return lambda: make().to(dtype)


TEXT = [
    Family("bert", _bert(torch.float32), (_IDS, _PADDING)),
    Family("minilm", _SentenceEmbedding, (_IDS, _PADDING)),
    Family(
        "roberta",
        _transformer(
            "RobertaModel",
            transformers.RobertaConfig(**_TEXT),
            "input_ids attention_mask",
            "last_hidden_state",
        ),
        (_IDS, _PADDING),
    ),
    Family(
        "distilbert",
        _transformer(
            "DistilBertModel",
            transformers.DistilBertConfig(
                vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=64
            ),
            "input_ids attention_mask",
            "last_hidden_state",
        ),
        (_IDS, _PADDING),
    ),
    Family(
        "albert",
        _transformer(
            "AlbertModel",
            transformers.AlbertConfig(**_TEXT, embedding_size=16),
            "input_ids attention_mask",
            "last_hidden_state",
        ),
        (_IDS, _PADDING),
    ),
    Family(
        "gpt2",
        _transformer(
            "GPT2LMHeadModel",
            transformers.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=40),
            "input_ids",
            "logits",
            use_cache=False,
        ),
        (_IDS,),
    ),
    Family(
        "llama",
        _transformer(
            "LlamaForCausalLM",
            transformers.LlamaConfig(**_TEXT, num_key_value_heads=2),
            "input_ids",
            "logits",
            use_cache=False,
        ),
        (_IDS,),
    ),
    Family(
        "t5_encoder",
        _transformer(
            "T5EncoderModel",
            transformers.T5Config(
                vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4
            ),
            "input_ids attention_mask",
            "last_hidden_state",
        ),
        (_IDS, _PADDING),
    ),
    Family(
        "bart",
        _transformer(
            "BartModel",
            transformers.BartConfig(
                vocab_size=99,
                d_model=32,
                encoder_layers=2,
                decoder_layers=2,
                encoder_attention_heads=4,
                decoder_attention_heads=4,
                encoder_ffn_dim=64,
                decoder_ffn_dim=64,
                max_position_embeddings=40,
            ),
            "input_ids decoder_input_ids",
            "last_hidden_state",
            use_cache=False,
        ),
        (_IDS, ids(99, 2, 5)),
    ),
    Family(
        "bert_dynamic",
        _bert(torch.float32),
        (_IDS, _PADDING),
        dynamic_shapes={"values": ({1: _LENGTH}, {1: _LENGTH})},
        others=[(ids(99, 2, n), torch.ones(2, n, dtype=torch.int64)) for n in (1, 40, 9)],
    ),
    Family("bert_bfloat16", _bert(torch.bfloat16), (_IDS, _PADDING), rtol=0.05),
    Family("bert_half", _bert(torch.float16), (_IDS, _PADDING), rtol=0.01),
    Family("lstm_tagger", lambda: randomized(Tagger()), (_IDS,)),
]

# --- images ----------------------------------------------------------------------------

_LABELS: dict[str, Any] = {"num_labels": 10}
_PATCHES: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 8,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    **_LABELS,
}
_IMAGE = r(2, 3, 32, 32)


IMAGES = [
    Family(
        "vit",
        _transformer(
            "ViTForImageClassification",
            transformers.ViTConfig(**_PATCHES),
            "pixel_values",
            "logits",
        ),
        (_IMAGE,),
    ),
    Family(
        "deit",
        _transformer(
            "DeiTForImageClassificationWithTeacher",
            transformers.DeiTConfig(**_PATCHES),
            "pixel_values",
            "logits cls_logits distillation_logits",
        ),
        (_IMAGE,),
    ),
    Family(
        "clip_vision",
        _transformer(
            "CLIPVisionModel",
            transformers.CLIPVisionConfig(**_PATCHES),
            "pixel_values",
            "last_hidden_state pooler_output",
        ),
        (_IMAGE,),
    ),
    Family(
        "dinov2",
        _transformer(
            "Dinov2Model",
            transformers.Dinov2Config(**_PATCHES),
            "pixel_values",
            "last_hidden_state",
        ),
        (_IMAGE,),
    ),
    Family(
        "swin",
        _transformer(
            "SwinForImageClassification",
            transformers.SwinConfig(
                image_size=32,
                patch_size=2,
                embed_dim=16,
                depths=[2, 2],
                num_heads=[2, 4],
                window_size=4,
                **_LABELS,
            ),
            "pixel_values",
            "logits",
        ),
        (_IMAGE,),
    ),
    Family(
        "resnet",
        _transformer(
            "ResNetForImageClassification",
            transformers.ResNetConfig(
                embedding_size=16, hidden_sizes=[16, 32, 48], depths=[1, 2, 1], **_LABELS
            ),
            "pixel_values",
            "logits",
        ),
        (_IMAGE,),
    ),
    Family(
        "mobilenet_v2",
        _transformer(
            "MobileNetV2ForImageClassification",
            transformers.MobileNetV2Config(image_size=32, depth_multiplier=0.35, **_LABELS),
            "pixel_values",
            "logits",
        ),
        (_IMAGE,),
    ),
    Family("mobilenet_v3", lambda: randomized(mobilenet_v3()), (_IMAGE,)),
    Family(
        "swin_v2",
        _transformer(
            "Swinv2ForImageClassification",
            transformers.Swinv2Config(
                image_size=32,
                patch_size=2,
                embed_dim=16,
                depths=[2, 2],
                num_heads=[2, 4],
                window_size=4,
                **_LABELS,
            ),
            "pixel_values",
            "logits",
        ),
        (_IMAGE,),
    ),
    Family(
        "regnet",
        _transformer(
            "RegNetForImageClassification",
            transformers.RegNetConfig(
                embedding_size=8,
                hidden_sizes=[16, 24],
                depths=[1, 2],
                groups_width=8,
                **_LABELS,
            ),
            "pixel_values",
            "logits",
        ),
        (_IMAGE,),
    ),
    *(
        Family(make.__name__, _randomized(make), (r(2, 3, 64, 64),))
        for make in (vgg, squeezenet, densenet, shufflenet, inception, maxvit)
    ),
    Family(
        "efficientnet",
        _transformer(
            "EfficientNetForImageClassification",
            transformers.EfficientNetConfig(
                image_size=32,
                width_coefficient=0.25,
                depth_coefficient=0.3,
                hidden_dim=320,
                **_LABELS,
            ),
            "pixel_values",
            "logits",
        ),
        (_IMAGE,),
    ),
    Family(
        "convnext",
        _transformer(
            "ConvNextForImageClassification",
            transformers.ConvNextConfig(
                hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 2, 1], **_LABELS, image_size=64
            ),
            "pixel_values",
            "logits",
        ),
        (r(1, 3, 64, 64),),
    ),
    Family(
        "segformer",
        _transformer(
            "SegformerForSemanticSegmentation",
            transformers.SegformerConfig(
                depths=[1, 1, 1, 1],
                hidden_sizes=[8, 16, 24, 32],
                num_attention_heads=[1, 2, 3, 4],
                decoder_hidden_size=32,
                **_LABELS,
            ),
            "pixel_values",
            "logits",
        ),
        (r(1, 3, 64, 64),),
    ),
]

# --- sound -----------------------------------------------------------------------------

_SPEECH: dict[str, Any] = {
    "vocab_size": 20,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "conv_dim": (16, 16, 16),
    "conv_stride": (5, 2, 2),
    "conv_kernel": (10, 3, 2),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "do_stable_layer_norm": False,
}
_WAVE = r(1, 800)

SOUND = [
    Family(
        "wav2vec2",
        _transformer(
            "Wav2Vec2ForCTC", transformers.Wav2Vec2Config(**_SPEECH), "input_values", "logits"
        ),
        (_WAVE,),
    ),
    Family(
        "hubert",
        _transformer(
            "HubertModel", transformers.HubertConfig(**_SPEECH), "input_values", "last_hidden_state"
        ),
        (_WAVE,),
    ),
    Family(
        "wav2vec2_conformer",
        _transformer(
            "Wav2Vec2ConformerForCTC",
            transformers.Wav2Vec2ConformerConfig(
                **_SPEECH, conv_depthwise_kernel_size=7, position_embeddings_type="relative"
            ),
            "input_values",
            "logits",
        ),
        (_WAVE,),
    ),
]


def _whisper_encoder() -> nn.Module:
    config = transformers.WhisperConfig(
        num_mel_bins=16,
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=64,
        max_source_positions=20,
        decoder_layers=1,
        decoder_attention_heads=4,
        decoder_ffn_dim=64,
        vocab_size=99,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=3,
    )
    return Outputs(
        randomized(transformers.WhisperModel(config).encoder), "input_features", "last_hidden_state"
    )


SOUND.append(Family("whisper_encoder", _whisper_encoder, (r(1, 16, 40),)))


SOUND.append(
    Family(
        "conformer",
        lambda: randomized(nn.Sequential(ConformerBlock(), ConformerBlock())),
        (r(2, 11, 32),),
    )
)

# --- diffusion -------------------------------------------------------------------------


SOUND += [
    Family("wav2letter", lambda: randomized(wav2letter()), (r(1, 1, 700),)),
    Family("wavernn", lambda: randomized(WaveRNN()), (r(2, 24), r(2, 8, 6))),
]

DIFFUSION = [
    Family(
        "diffusion_unet",
        lambda: randomized(UNet()),
        (r(2, 4, 16, 16), torch.tensor([3, 700]), r(2, 5, 24)),
    )
]

FAMILIES = [*TEXT, *IMAGES, *SOUND, *DIFFUSION]
