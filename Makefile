# The commands of this project. `make help` lists them.
#
# Everything is installed into .venv and built into build*/; nothing outside this
# folder is touched (pip's and ccache's caches apart).

PYTHON ?= python3
JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
VENV := $(CURDIR)/.venv
PRESET ?= release
MODEL_DIR ?= .cache/models

# The tools of the environment come first: cmake, ninja, ruff, ... of known versions.
export PATH := $(VENV)/bin:$(PATH)
export VIRTUAL_ENV := $(VENV)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)

CXX_FILES = $(shell git ls-files --cached --others --exclude-standard '*.h' '*.cpp' '*.cc')
# As many test processes as cores, but models are large: at most 4.
PYTEST_JOBS ?= $(shell j=$(JOBS); [ $$j -gt 4 ] && j=4; echo $$j)
PYTEST := python -m pytest
# Flows of ExecuTorch's suite; ggml_xnnpack is the other one.
FLOWS ?= ggml
# What the Python tests lowered, to be run again by the sanitizer build.
CORPUS := $(CURDIR)/build/corpus

.PHONY: help setup build demo test check lint format cpp-test py-test suite asan asan-corpus aarch64-kernels package-test clean
.DEFAULT_GOAL := help

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- environment and build ----------------------------------------------------

setup: $(VENV)/.ready ## Make .venv with everything needed

$(VENV)/.ready: pyproject.toml tools/setup.sh tools/requirements.py
	@PYTHON="$(PYTHON)" bash tools/setup.sh "$(VENV)"
	@touch $@

build: setup ## Build the C++ library, programs and tests into build/
	@echo "==> configuring ($(PRESET))"
	@cmake --preset $(PRESET)
	@echo "==> building with $(JOBS) jobs"
	@cmake --build --preset $(PRESET)

demo: build ## A real language model: GGUF -> .pte -> text, in C++
	@bash examples/demo.sh

# --- tests --------------------------------------------------------------------

check: lint build ## The everyday loop: lint, build, fast tests (under 5 minutes)
	@echo "==> C++ tests"
	@ctest --preset $(PRESET) -j $(JOBS)
	@echo "==> Python tests (fast)"
	@$(PYTEST) -n $(PYTEST_JOBS) -m "not slow and not network"

test: lint build cpp-test py-test suite asan asan-corpus ## Everything CI runs

cpp-test: build
	@echo "==> C++ tests"
	@ctest --preset $(PRESET) -j $(JOBS)

py-test: build
	@echo "==> Python tests (all)"
	@rm -rf "$(CORPUS)"
	@EXECUTORCH_GGML_CORPUS="$(CORPUS)" $(PYTEST) -n $(PYTEST_JOBS) --durations=15

suite: build ## ExecuTorch's own operator suite with our partitioner (FLOWS=... for others)
	@python -m tests.suite $(FLOWS) --jobs $(PYTEST_JOBS)

asan: setup ## The C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@echo "==> building with sanitizers"
	@cmake --preset asan
	@cmake --build --preset asan
	@echo "==> C++ tests under ASan and UBSan"
	@UBSAN_OPTIONS=print_stacktrace=1 ctest --preset asan -j $(JOBS)

asan-corpus: ## The op table's programs, written by py-test, under the sanitizers
	@echo "==> the op table under ASan and UBSan"
	@UBSAN_OPTIONS=print_stacktrace=1 build-asan/tests/run_corpus "$(CORPUS)"

aarch64-kernels: setup ## The kernels' tests for AArch64, cross-compiled, under qemu
	@for tool in aarch64-linux-gnu-g++ qemu-aarch64; do \
	    command -v $$tool >/dev/null && continue; \
	    echo "$$tool is missing: apt-get install g++-aarch64-linux-gnu qemu-user" >&2; exit 1; \
	done
	@cmake -S tests/aarch64 -B build-aarch64 -G Ninja -DCMAKE_BUILD_TYPE=Release -Wno-deprecated
	@cmake --build build-aarch64
	@ctest --test-dir build-aarch64 --output-on-failure -j $(JOBS)

lint: setup ## ruff, mypy --strict, clang-format
	@echo "==> ruff"
	@ruff check .
	@ruff format --check .
	@echo "==> mypy --strict"
	@mypy
	@echo "==> clang-format"
	@clang-format --dry-run -Werror $(CXX_FILES)

format: setup ## Format every file in place
	@ruff check --fix-only --quiet . || true
	@ruff format .
	@clang-format -i $(CXX_FILES)

clean: ## Remove what was built (keeps .venv, third-party and models)
	rm -rf build build-debug build-asan build-tsan build-aarch64 build-wheel dist
