"""Which GGUF tensor holds which parameter of the decoder."""

from __future__ import annotations

from collections.abc import Iterable

from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

from executorch_ggml.gguf.config import DecoderConfig

_EMBEDDING = "token_embd.weight"
_HEAD = "output.weight"


def weight_keys(parameters: Iterable[str], config: DecoderConfig) -> dict[str, tuple[str, ...]]:
    """Tensor names of each parameter, in the order in which they are looked for.

    A head that shares the embedding's matrix has no tensor of its own, so it falls
    back to the embedding; a file of the same model may have it or not.

    Raises:
        KeyError: a parameter that GGUF has no name for.
    """
    architecture = {name: arch for arch, name in MODEL_ARCH_NAMES.items()}[config.architecture]
    names = get_tensor_name_map(architecture, config.n_layers)
    keys: dict[str, tuple[str, ...]] = {}
    for parameter in parameters:
        if parameter == "model.rope_freqs":
            name = "rope_freqs.weight"
        else:
            found = names.get_name(parameter, try_suffixes=(".weight", ".bias"))
            if found is None:
                raise KeyError(f"GGUF has no name for the parameter '{parameter}'")
            name = found
        keys[parameter] = (_HEAD, _EMBEDDING) if name == _HEAD else (name,)
    return keys
