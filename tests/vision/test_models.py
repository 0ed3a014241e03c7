"""Vision models at true size: one delegate, no op of our own, eager's results and classes."""

from __future__ import annotations

import pytest
import torch

from tests.vision.lowering import Program, assert_close, assert_one_delegate, outputs
from tests.vision.models import MODELS, Model, pictures


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_equals_eager(model: Model) -> None:
    module = model.module()
    images = pictures(6).split(1)[:3]
    program = Program(module, images[:1])
    assert_one_delegate(program)
    assert program.n_folded == model.n_folded
    classes = []
    for image in images:
        expected = outputs(module, image)
        actual = program(image)
        assert_close(actual, expected)
        scores = expected[0]
        assert scores.shape == (1, *model.scores)
        torch.testing.assert_close(actual[0].argmax(-1), scores.argmax(-1), rtol=0, atol=0)
        classes.append(scores.argmax(-1))
    assert len(torch.stack(classes).unique(dim=0)) > 1, "every image gets the same classes"
