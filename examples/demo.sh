#!/usr/bin/env bash
# A real language model from GGUF to text: fetch it, export its graph to a small
# .pte, then run .pte + .gguf in a C++ program without Python. `make demo` builds
# what this needs and calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD_DIR:-build}
prompt=${1:-"What is the capital of France?"}
models=.cache/models
pte=$models/smollm2.pte

echo "==> [1/3] the model: SmolLM2-135M-Instruct as a GGUF file"
gguf=$(python examples/fetch_model.py --cache "$models")
echo "    $gguf ($(du -h "$gguf" | cut -f1))"

echo "==> [2/3] exporting its graph, without weights"
executorch-ggml export "$gguf" -o "$pte"
echo "    $pte ($(du -h "$pte" | cut -f1))"

echo "==> [3/3] running .pte + .gguf in C++"
"$build/bin/run_llm" "$pte" --gguf "$gguf" --prompt "$prompt"
