"""What convolutions, pools and interpolation share: windows over the last dims of an image.

An image is ``[n, c, *sizes]`` in torch with one to three sizes, its innermost last. ggml
has four dims: a volume's ``n`` and ``c`` are one, ``(w, h, d, n * c)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch import fx

from executorch_ggml.ir.canonical import floor_div
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, simplify_dim
from executorch_ggml.lowering.context import LoweringContext, Tensor
from executorch_ggml.lowering.elementwise import add_values
from executorch_ggml.lowering.registry import Unsupported

_NEUTRAL: Final = {"kernel": 1, "stride": 1, "padding": 0, "dilation": 1}


@dataclass(frozen=True)
class Windows:
    """Windows over one to three dims, outermost first."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def over(self, rank: int) -> Windows:
        """The same over ``rank`` dims: in dims put before them, a window is one element."""
        return self._among(rank - len(self.kernel), 0)

    def inner(self) -> Windows:
        """Of all dims but the outermost."""
        return Windows(*(getattr(self, name)[1:] for name in _NEUTRAL))

    def outer(self) -> Windows:
        """Of the outermost dim, followed by one in which a window is one element."""
        return Windows(*(getattr(self, name)[:1] for name in _NEUTRAL))._among(0, 1)

    def _among(self, before: int, after: int) -> Windows:
        return Windows(
            *(
                (neutral,) * before + getattr(self, name) + (neutral,) * after
                for name, neutral in _NEUTRAL.items()
            )
        )

    def params(self, *names: str) -> dict[str, int]:
        """As parameters of a call, numbered from the innermost dim; all unless named."""
        return {
            f"{name}{i}": value
            for name in names or tuple(_NEUTRAL)
            for i, value in enumerate(reversed(getattr(self, name)))
        }

    def extents(self, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        """How many windows lie on sizes, all of them whole."""
        spans = (d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True))
        return tuple(
            simplify_dim(floor_div(simplify_dim(size + 2 * padding - span), stride) + 1)
            for size, span, stride, padding in zip(
                sizes, spans, self.stride, self.padding, strict=True
            )
        )


def per_dim(ctx: LoweringContext, arg: Any, rank: int, name: str) -> tuple[int, ...]:
    """An argument for each dim: an int or a list, of which one element counts for every dim."""
    values = [arg] if isinstance(arg, int) else list(arg)
    if len(values) == 1:
        values = values * rank
    return tuple(ctx.static(v, name) for v in values)


def batched(x: Tensor, rank: int) -> tuple[Dim, ...]:
    """The shape of ``x`` with a batch dim, which torch lets callers leave out.

    Raises:
        Unsupported: neither ``rank + 1`` nor ``rank + 2`` dims.
    """
    if x.rank == rank + 1:
        return (1, *x.shape)
    if x.rank != rank + 2:
        raise Unsupported(f"an input of rank {x.rank} to an op over {rank} dims")
    return x.shape


def with_bias(ctx: LoweringContext, node: fx.Node, y: Value, channels: int, dims: int) -> Tensor:
    """The result of a convolution, plus its bias along the channels that ``dims`` dims follow."""
    bias = ctx.optional_tensor(ctx.argument(node, 2, "bias"), "bias")
    if bias is not None:
        y = add_values(ctx, y, ctx.reshape(ctx.as_f32(bias).value, (channels, *(1,) * dims)))
    return ctx.result(node, ctx.reshape(y, ctx.output_shape(node)))
