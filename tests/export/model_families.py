"""Small models of the families that people export, with random weights and example inputs.

Configurations are transformers' own with small sizes. Default weights would make the
comparison vacuous (a default MobileNetV2 gives 1e-22): :func:`randomized` draws new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from tests.lowering.cases.base import ids, r


@dataclass(frozen=True)
class Family:
    """A model and its inputs.

    ``left``: how often which op stays with ExecuTorch; empty: all is delegated.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: tuple[Tensor, ...]
    left: Mapping[str, int] = field(default_factory=dict)


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


class _Tagger(nn.Module):
    """Words to tags: embedding, two layers both ways, a product for each word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(99, 16)
        self.layers = nn.LSTM(16, 12, 2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(24, 5)

    def forward(self, ids: Tensor) -> Tensor:
        found: Tensor = self.tags(self.layers(self.words(ids))[0]).log_softmax(-1)
        return found


TEXT = [
    Family(
        "bert",
        _transformer(
            "BertModel",
            transformers.BertConfig(**_TEXT),
            "input_ids attention_mask",
            "last_hidden_state pooler_output",
        ),
        (_IDS, _PADDING),
    ),
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
    Family("lstm_tagger", lambda: randomized(_Tagger()), (_IDS,)),
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


class _Scaled(nn.Module):
    """The channels weighted by what the whole image holds, as in MobileNetV3."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(channels, channels // 4, 1)
        self.up = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        mean = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.up(F.relu(self.down(mean))))


class _Bottleneck(nn.Module):
    """MobileNetV3's block: widen, filter each channel, weight the channels, narrow."""

    def __init__(self, channels: int, wide: int, kernel: int, stride: int, out: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.Hardswish(),
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.Hardswish(),
            _Scaled(wide),
            nn.Conv2d(wide, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.adds = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return x + y if self.adds else y


def _mobilenet_v3() -> nn.Module:
    return randomized(
        nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.Hardswish(),
            _Bottleneck(16, 32, 3, 1, 16),
            _Bottleneck(16, 48, 5, 2, 24),
            _Bottleneck(24, 64, 5, 1, 24),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(24, 32),
            nn.Hardswish(),
            nn.Dropout(0.2),
            nn.Linear(32, 10),
        )
    )


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
    Family("mobilenet_v3", _mobilenet_v3, (_IMAGE,)),
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


class _ConformerBlock(nn.Module):
    """Gulati et al. 2020: half a feed-forward, attention, convolution, half a feed-forward."""

    def __init__(self, size: int = 32, heads: int = 4, kernel: int = 7) -> None:
        super().__init__()
        self.first, self.second = self._feed_forward(size), self._feed_forward(size)
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(3))
        self.attention = nn.MultiheadAttention(size, heads, batch_first=True)
        self.widen = nn.Conv1d(size, 2 * size, 1)
        self.depthwise = nn.Conv1d(size, size, kernel, padding=kernel // 2, groups=size)
        self.batch_norm = nn.BatchNorm1d(size)
        self.narrow = nn.Conv1d(size, size, 1)

    @staticmethod
    def _feed_forward(size: int) -> nn.Sequential:
        return nn.Sequential(
            nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.SiLU(), nn.Linear(4 * size, size)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.first(x)
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = F.glu(self.widen(self.norms[1](x).transpose(1, 2)), dim=1)
        x = x + self.narrow(F.silu(self.batch_norm(self.depthwise(y)))).transpose(1, 2)
        return self.norms[2](x + 0.5 * self.second(x))  # type: ignore[no-any-return]


SOUND.append(
    Family(
        "conformer",
        lambda: randomized(nn.Sequential(_ConformerBlock(), _ConformerBlock())),
        (r(2, 11, 32),),
    )
)

# --- diffusion -------------------------------------------------------------------------


class _TimeBlock(nn.Module):
    """A residual block that adds the time's embedding to every pixel."""

    def __init__(self, channels: int, out: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, channels), nn.GroupNorm(4, out)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.skip = nn.Conv2d(channels, out, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))  # type: ignore[no-any-return]


class _CrossAttention(nn.Module):
    """Pixels attend to a text's states."""

    def __init__(self, channels: int, text: int, heads: int = 4) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.heads = heads
        self.q = nn.Linear(channels, channels, bias=False)
        self.kv = nn.Linear(text, 2 * channels, bias=False)
        self.out = nn.Linear(channels, channels)

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        b, c, h, w = x.shape
        rows = self.norm(x).flatten(2).transpose(1, 2)
        k, v = self.kv(text).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(rows), k, v))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.out(y).transpose(1, 2).reshape(b, c, h, w)  # type: ignore[no-any-return]


class _UNet(nn.Module):
    """A denoiser of one level: down, attend to the text, up, with a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.first = nn.Conv2d(4, 16, 3, padding=1)
        self.down = _TimeBlock(16, 16, 32)
        self.halve = nn.Conv2d(16, 16, 3, stride=2, padding=1)
        self.middle = _TimeBlock(16, 32, 32)
        self.attention = _CrossAttention(32, 24)
        self.conv = nn.Conv2d(32, 16, 3, padding=1)
        self.up = _TimeBlock(32, 16, 32)
        self.last = nn.Sequential(nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 4, 3, padding=1))

    def forward(self, x: Tensor, step: Tensor, text: Tensor) -> Tensor:
        frequencies = torch.exp(-torch.arange(8, dtype=torch.float32) * 1.15)
        angles = step[:, None].float() * frequencies
        time = self.time(torch.cat([angles.cos(), angles.sin()], dim=-1))
        kept = self.down(self.first(x), time)
        y = self.attention(self.middle(self.halve(kept), time), text)
        y = self.conv(F.interpolate(y, scale_factor=2.0, mode="nearest"))
        found: Tensor = self.last(self.up(torch.cat([y, kept], dim=1), time))
        return found


DIFFUSION = [
    Family(
        "diffusion_unet",
        lambda: randomized(_UNet()),
        (r(2, 4, 16, 16), torch.tensor([3, 700]), r(2, 5, 24)),
    )
]

FAMILIES = [*TEXT, *IMAGES, *SOUND, *DIFFUSION]
