"""Tables and links of the documents agree with the source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from executorch_ggml.cli.main import parser
from tests.docs.blocks import DOCUMENTS, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_options() -> None:
    """Each option and each variable of options.h is in the README, and no other."""
    header = (ROOT / "runtime/include/executorch_ggml/options.h").read_text()
    options = header[header.index("namespace option {") : header.index("}  // namespace option")]
    names = set(re.findall(r'inline constexpr char k\w+\[\] = "(\w+)"', options))
    variables = set(re.findall(r"GGML_[A-Z_]+", options))
    table = README[README.index("| option | variable |") :].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in table.splitlines()[2:]]
    assert {row[0].strip("`") for row in rows} == names
    assert {v for row in rows for v in re.findall(r"GGML_[A-Z_]+", row[1])} == variables


def test_the_table_of_build_options() -> None:
    source = (ROOT / "cmake/Options.cmake").read_text()
    declared = set(re.findall(r"^(?:option|set)\((EXECUTORCH_\w+|LLAMA_CPP_DIR)", source, re.M))
    internal = {"EXECUTORCH_GGML_FETCH_EXECUTORCH"}  # only `pip install` needs it
    table = README[README.index("| option | default |") :].split("\n\n")[0]
    listed = {line.split("|")[1].strip().strip("`") for line in table.splitlines()[2:]}
    assert listed - {"GGML_*"} == declared - internal


def test_the_table_of_commands() -> None:
    (commands,) = (a for a in parser()._actions if a.dest == "command")
    assert commands.choices is not None
    table = README[README.index("| command | does |") :].split("\n\n")[0]
    listed = [line.split("|")[1].strip().strip("`") for line in table.splitlines()[2:]]
    assert listed == list(commands.choices)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        path = (document.parent / name).resolve() if name else document
        assert path.exists(), f"{document.name}: {target}"
        if anchor:
            titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
            assert anchor in map(_slug, titles), f"{document.name}: {target}"


def _slug(title: str) -> str:
    """A title's anchor, as hosting sites make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_files_that_are_named_exist(document: Path) -> None:
    """Paths in backquotes, such as `executorch_ggml/ir/opset.py`, are in the tree."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.S)
    folders = (
        "executorch_ggml|runtime|tests|tools|cmake|bench|docs|examples|runner|ir|lowering|fusion"
    )
    for name in re.findall(rf"`((?:{folders})/[\w./]+)`", text):
        places = (ROOT / name, ROOT / "executorch_ggml" / name, ROOT / "runtime/include" / name)
        assert any(place.exists() for place in places), f"{document.name}: {name}"
