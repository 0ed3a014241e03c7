"""Importing this module halves the time of a lowering.

Half of it goes into listing torch's composite ops again, each time; nobody registers new
ones in between.
"""

from __future__ import annotations

from functools import cache

import torch

torch._export.utils._collect_all_valid_cia_ops_for_namespace = cache(  # type: ignore[assignment]
    torch._export.utils._collect_all_valid_cia_ops_for_namespace
)
