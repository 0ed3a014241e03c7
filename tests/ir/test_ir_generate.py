"""The checked-in generated files are what the generator writes today."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from executorch_ggml.ir import generate
from executorch_ggml.ir.opset import OPSET, OPSET_VERSION

_ROOT = Path(__file__).resolve().parents[2]


def test_generated_files_are_fresh() -> None:
    assert generate.stale_files(_ROOT) == []


def test_header_names_every_op() -> None:
    header = generate.opset_header()
    assert f"kOpsetVersion = {OPSET_VERSION};" in header
    for op in OPSET.values():
        assert f'.name = "{op.name}"' in header
        assert f" = {op.code},\n" in header


def test_codes_are_stable() -> None:
    """A file written today must run tomorrow: these codes never change."""
    published = {
        "reshape": 1, "permute": 2, "view": 3, "cont": 10, "cast": 11, "repeat": 12,
        "concat": 13, "pad": 14, "get_rows": 20, "set_rows": 21, "assign": 22, "add": 30,
        "sub": 31, "mul": 32, "div": 33, "scale": 34, "clamp": 35, "sqr": 36, "sqrt": 37,
        "log": 38, "sin": 39, "cos": 40, "unary": 41, "leaky_relu": 42, "glu": 43,
        "sum_rows": 50, "mean_rows": 51, "sum": 52, "argmax": 53, "cumsum": 54, "norm": 60,
        "rms_norm": 61, "group_norm": 62, "l2_norm": 63, "soft_max": 64, "mul_mat": 70,
        "rope": 71, "attention": 72, "update_and_attend": 73, "conv_2d": 80,
        "conv_2d_dw": 81, "pool_2d": 82, "im2col": 83, "im2col_3d": 84, "col2im": 85,
        "upscale": 86, "host_unary": 200, "host_binary": 201, "host_where": 202,
        "host_convert": 203, "host_round": 204, "host_reduce": 205, "host_scan": 206,
        "host_argsort": 207, "host_gather": 208, "host_scatter": 209, "host_wrap_ids": 210,
        "host_iota": 211, "host_pool": 212, "host_resize": 220, "host_grid_sample": 221,
        "host_recurrent": 230,
    }  # fmt: skip
    assert {name: OPSET[name].code for name in published} == published


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_header_compiles_without_warnings(tmp_path: Path) -> None:
    source = tmp_path / "use.cpp"
    source.write_text(
        '#include "runtime/opset.h"\n'
        "namespace eg = executorch_ggml;\n"
        "static_assert(eg::find_op(71)->op == eg::Op::Rope);\n"
        "static_assert(eg::find_op(71)->min_inputs == 2 && eg::find_op(71)->max_inputs == 3);\n"
        "static_assert(eg::find_op(0) == nullptr && eg::find_op(65535) == nullptr);\n"
        "static_assert(eg::params::rope::kFreqBase == 0 && eg::inputs::rope::kFreqFactors == 2);\n"
    )
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"]
    command = ["c++", "-std=c++20", "-fsyntax-only", *warnings, f"-I{_ROOT}", str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
