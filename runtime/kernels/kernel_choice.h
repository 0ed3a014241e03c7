// Which of a family's sets of kernels run: each is compiled for one instruction set.
#pragma once

#include <cstdlib>
#include <cstring>
#include <span>

namespace executorch_ggml {

template <typename Kernels>
struct KernelSet {
  const Kernels* kernels;
  bool runs_here;
};

// The first set that runs here and has this name, or any where `isa` is null; null if none does.
template <typename Kernels>
const Kernels* find_kernels(std::span<const KernelSet<Kernels>> sets, const char* isa) {
  for (const KernelSet<Kernels>& set : sets) {
    if (set.runs_here && (isa == nullptr || std::strcmp(isa, set.kernels->isa) == 0)) {
      return set.kernels;
    }
  }
  return nullptr;
}

// The first that runs here, the best one, unless the environment variable GGML_CPU_ISA names
// another one (for tests).
template <typename Kernels>
const Kernels* choose_kernels(std::span<const KernelSet<Kernels>> sets) {
  const char* const wanted = std::getenv("GGML_CPU_ISA");
  const Kernels* const named = wanted == nullptr ? nullptr : find_kernels(sets, wanted);
  return named != nullptr ? named : find_kernels(sets, nullptr);
}

}  // namespace executorch_ggml
