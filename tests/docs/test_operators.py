"""``docs/operators.md`` lists what is registered."""

from __future__ import annotations

from pathlib import Path

from executorch_ggml.lowering.catalog import PATH, document


def test_the_list_of_operators_is_fresh() -> None:
    found = (Path(__file__).resolve().parents[2] / PATH).read_text()
    assert found == document(), "run python -m executorch_ggml.lowering.catalog"
