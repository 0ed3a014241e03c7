#!/usr/bin/env bash
# Makes the development environment: tools/setup.sh <venv folder>
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$1
python=${PYTHON:-python3}

say() { echo "==> $*"; }
fail() {
  echo "setup: $1" >&2
  shift
  printf '       %s\n' "$@" >&2
  exit 1
}

say "[1/5] checking the tools this needs"
command -v "$python" >/dev/null ||
  fail "no Python 3.10 or newer found. Install it:" \
    "apt-get install python3 python3-venv    (Debian, Ubuntu)" \
    "brew install python                     (macOS)"
"$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 15))' ||
  fail "$("$python" --version) does not fit: Python 3.10 to 3.14 is needed." \
    "Name another one: make setup PYTHON=python3.12"
cxx=${CXX:-c++}
command -v "$cxx" >/dev/null ||
  fail "no C++ compiler found ('$cxx'). Install one that knows C++20 (GCC 11, Clang 14 or newer):" \
    "apt-get install g++                     (Debian, Ubuntu)" \
    "xcode-select --install                  (macOS)"
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
echo '#include <span>
int main() { return static_cast<int>(std::span<int>{}.size()); }' >"$probe/probe.cpp"
"$cxx" -std=c++20 -o "$probe/probe" "$probe/probe.cpp" 2>"$probe/log" ||
  fail "'$cxx' does not compile a C++20 program:" "$(tail -3 "$probe/log")" \
    "apt-get install g++                     (Debian, Ubuntu; GCC 11 or newer)"

if [ ! -x "$venv/bin/python" ]; then
  say "[2/5] making the environment $venv"
  "$python" -m venv "$venv" ||
    fail "this Python cannot make a virtual environment. Install the module:" \
      "apt-get install python3-venv            (Debian, Ubuntu)"
else
  say "[2/5] using the environment $venv"
fi
pip=("$venv/bin/python" -m pip)
export PIP_DISABLE_PIP_VERSION_CHECK=1

# torch first: packages that only say "torch" must not choose its version.
say "[3/5] installing PyTorch"
"$venv/bin/python" tools/requirements.py --only torch >"$probe/torch.txt"
"${pip[@]}" install -r "$probe/torch.txt"

say "[4/5] installing ExecuTorch, transformers and the tools"
"$venv/bin/python" tools/requirements.py dev >"$probe/all.txt"
"${pip[@]}" install -r "$probe/all.txt"

# The Python side alone; the C++ library comes from build/ (make build).
say "[5/5] installing executorch-ggml, editable"
"${pip[@]}" install --quiet --no-deps --no-build-isolation --config-settings wheel.cmake=false -e .
say "ready: $venv"
