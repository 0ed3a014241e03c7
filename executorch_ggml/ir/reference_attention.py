"""References of rotation and attention, and a KV cache held in torch tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from executorch_ggml.ir.enums import RopeMode
from executorch_ggml.ir.reference import Context, Inputs, Params, operand, optional
from executorch_ggml.ir.types import IRError

# --- rotation --------------------------------------------------------------------------


def _yarn_ramp(p: Params) -> Tensor:
    """Per pair: 1 where the frequency is kept, 0 where it is interpolated."""
    n_dims = p["n_dims"]

    def pair_of(turns: float) -> float:
        """The pair that turns so often over the original context (YaRN, section 3.2)."""
        period = p["original_context"] / (turns * 2 * math.pi)
        return float(n_dims * math.log(period) / (2 * math.log(p["freq_base"])))

    low = max(0.0, math.floor(pair_of(p["beta_fast"])))
    high = min(n_dims - 1.0, math.ceil(pair_of(p["beta_slow"])))
    pairs = torch.arange(n_dims // 2, dtype=torch.float64)
    interpolated: Tensor = ((pairs - low) / max(0.001, high - low)).clamp(0, 1)
    return torch.sub(torch.ones_like(interpolated), interpolated)


def rope_angles(p: Params, positions: Tensor, factors: Tensor | None) -> tuple[Tensor, float]:
    """Angles [positions, n_dims / 2] in F64, and the factor that scales the result."""
    n_dims = p["n_dims"]
    exponents = torch.arange(0, n_dims, 2, dtype=torch.float64) / n_dims
    full = positions.to(torch.float64).unsqueeze(-1) * p["freq_base"] ** -exponents
    if factors is not None:
        full = full / factors.to(torch.float64)
    angles = p["freq_scale"] * full
    magnitude = float(p["attn_factor"])
    if p["ext_factor"] != 0.0:
        mix = _yarn_ramp(p) * p["ext_factor"]
        angles = angles * (1 - mix) + full * mix
        magnitude *= 1.0 + 0.1 * math.log(1.0 / p["freq_scale"])
    return angles, magnitude


def rope(x: Inputs, p: Params, c: Context) -> Tensor:
    """``x`` [batch, positions, heads, d]: the first ``n_dims`` of d are rotated in pairs."""
    source = operand(x, 0)
    factors = optional(x, 2)
    positions = operand(x, 1).reshape(-1)
    n_dims = p["n_dims"]
    angles, magnitude = rope_angles(p, positions, None if factors is None else factors.reshape(-1))
    cos = (angles.cos() * magnitude).to(torch.float32)[None, :, None, :]
    sin = (angles.sin() * magnitude).to(torch.float32)[None, :, None, :]
    rotated, rest = source[..., :n_dims], source[..., n_dims:]
    if RopeMode(p["mode"]) is RopeMode.NEOX:
        a, b = rotated.chunk(2, dim=-1)
        turned = torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
    else:
        a, b = rotated[..., 0::2], rotated[..., 1::2]
        turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
    return torch.cat([turned, rest], dim=-1)


# --- attention -------------------------------------------------------------------------


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    visible: Tensor | None = None,
    bias: Tensor | None = None,
    softcap: float = 0.0,
    sinks: Tensor | None = None,
) -> Tensor:
    """softmax(cap(scale q k^T) + bias) v; 0 for a query whose bias hides every key.

    q is [B, S, H, D], k and v [B, T, Hkv, D*]; ``visible`` [B, S, T] (bool) and ``bias``
    [B or 1, H or 1, S, T]; ``sinks`` [H]: a score per head that takes part in the sum of
    the softmax and carries no value. Gives [B, S, H, Dv].
    """
    groups = q.shape[2] // k.shape[2]
    k = k.to(torch.float32).repeat_interleave(groups, dim=2)
    v = v.to(torch.float32).repeat_interleave(groups, dim=2)
    scores = torch.einsum("bshd,bthd->bhst", q, k) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if visible is not None:
        scores = scores.masked_fill(~visible.unsqueeze(1), -math.inf)
    if sinks is not None:
        column = sinks.reshape(1, -1, 1, 1).to(torch.float32).expand(*scores.shape[:3], 1)
        weights = torch.cat([scores, column], dim=-1).softmax(dim=-1)[..., :-1]
    else:
        weights = scores.softmax(dim=-1)
    if bias is not None:
        blind = (bias == -math.inf).all(dim=-1, keepdim=True)
        weights = weights.masked_fill(blind, 0.0)
    return torch.einsum("bhst,bthd->bshd", weights, v).contiguous()


def attention(x: Inputs, p: Params, c: Context) -> Tensor:
    q, k, v = (operand(x, i) for i in range(3))
    visible = None
    if p["causal"]:
        s, t = q.shape[1], k.shape[1]
        lower_right = torch.ones(s, t, dtype=torch.bool).tril(diagonal=t - s)
        visible = lower_right.expand(q.shape[0], s, t)
    return _attend(q, k, v, p["scale"], visible, optional(x, 3))


@dataclass
class KvCacheTensor:
    """One layer's cache: row = position. Grows as needed, up to ``max_capacity`` positions."""

    k_head_dim: int
    v_head_dim: int
    n_kv_heads: int
    n_batch: int
    max_capacity: int
    window: int = 0  # 0: every earlier position is seen
    k: Tensor = field(init=False)  # [n_batch, capacity, n_kv_heads, k_head_dim]
    v: Tensor = field(init=False)
    written: Tensor = field(init=False)  # [n_batch, capacity], bool

    def __post_init__(self) -> None:
        self.k = torch.zeros(self.n_batch, 0, self.n_kv_heads, self.k_head_dim)
        self.v = torch.zeros(self.n_batch, 0, self.n_kv_heads, self.v_head_dim)
        self.written = torch.zeros(self.n_batch, 0, dtype=torch.bool)

    def _grow(self, capacity: int) -> None:
        missing = capacity - self.k.shape[1]
        if missing > 0:
            for name in ("k", "v", "written"):
                old: Tensor = getattr(self, name)
                new = old.new_zeros(old.shape[0], missing, *old.shape[2:])
                setattr(self, name, torch.cat([old, new], dim=1))

    def write(self, rows: Tensor, positions: Tensor, k: Tensor, v: Tensor) -> None:
        """Rows [B] and positions [B, S] get k [B, S, Hkv, D] and v.

        Raises:
            IRError: a position outside the capacity, before anything is written.
        """
        first, last = int(positions.min()), int(positions.max())
        if first < 0 or last >= self.max_capacity:
            raise IRError(f"positions {first}..{last} of a cache of {self.max_capacity}")
        self._grow(last + 1)
        index = (rows.unsqueeze(-1), positions)
        self.k[index] = k
        self.v[index] = v
        self.written[index] = True


def update_and_attend(x: Inputs, p: Params, c: Context) -> Tensor:
    """Writes, then attends over what was written: a key is seen by a query at its own or a
    later position (``causal``), less than ``window`` positions away. An explicit mask covers
    the positions from 0; keys beyond it are not seen.
    """
    q, k, v = (operand(x, i) for i in range(3))
    cache = c.caches[p["state"]]
    batch = q.shape[0]
    given = operand(x, 3).to(torch.int64)
    positions = given.reshape(-1, given.shape[-1]).expand(batch, -1)
    sequences = optional(x, 6)
    rows = torch.arange(batch) if sequences is None else sequences.reshape(-1).to(torch.int64)
    if int(rows.max()) >= cache.n_batch or int(rows.min()) < 0:
        raise IRError(f"sequence {int(rows.max())} of a cache of {cache.n_batch}")
    if p["update"]:
        cache.write(rows, positions, k, v)
    keys = torch.arange(cache.k.shape[1])
    visible = cache.written[rows].unsqueeze(1).expand(batch, positions.shape[1], -1)
    distance = positions.unsqueeze(-1) - keys
    if p["causal"]:
        visible = visible & (distance >= 0)
    if cache.window:
        visible = visible & (distance < cache.window)
    mask = optional(x, 4)
    n_keys = keys.numel()
    if mask is not None:
        covered = min(n_keys, mask.shape[-1])
        n_keys = covered
        visible = visible[..., :covered]
        mask = mask[..., :covered]
    past_k, past_v = cache.k[rows, :n_keys], cache.v[rows, :n_keys]
    return _attend(q, past_k, past_v, p["scale"], visible, mask, p["softcap"], optional(x, 5))
