// run_pte MODEL.pte: runs `forward` on ones and prints the first output, a
// float a line. Nothing in here names the ggml backend: linking it is enough.
//
// With BESIDE_GGML the program also computes with a ggml of its own, before,
// between and after, and checks that neither copy sees the other.
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>

#include <cstdio>
#include <vector>

#ifdef BESIDE_GGML
#include <dlfcn.h>

#include <cstring>
#include <memory>

#include "ggml-cpu.h"
#include "ggml.h"
#endif

namespace {

using executorch::extension::Module;
using executorch::extension::TensorPtr;

#ifdef BESIDE_GGML

// 2x2 product on the program's own ggml: [1 2; 3 4] times [5 6]^T = [17 39].
bool own_ggml_works() {
  struct Free {
    void operator()(ggml_context* context) const { ggml_free(context); }
  };
  const std::unique_ptr<ggml_context, Free> context(
      ggml_init({.mem_size = size_t{1} << 20, .mem_buffer = nullptr, .no_alloc = false}));
  ggml_tensor* a = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 2, 2);
  ggml_tensor* b = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 2, 1);
  const float a_values[] = {1, 2, 3, 4};
  const float b_values[] = {5, 6};
  std::memcpy(a->data, a_values, sizeof(a_values));
  std::memcpy(b->data, b_values, sizeof(b_values));
  ggml_cgraph* graph = ggml_new_graph(context.get());
  ggml_tensor* product = ggml_mul_mat(context.get(), a, b);
  ggml_build_forward_expand(graph, product);
  if (ggml_graph_compute_with_ctx(context.get(), graph, 1) != GGML_STATUS_SUCCESS) {
    return false;
  }
  const auto* values = static_cast<const float*>(product->data);
  return values[0] == 17.0F && values[1] == 39.0F;
}

// The program shows its ggml to the dynamic linker, and the backend shows none.
bool symbols_are_apart() {
  constexpr char kLibrary[] = "libexecutorch_ggml_runtime.so";
  if (dlsym(RTLD_DEFAULT, "ggml_init") != reinterpret_cast<void*>(&ggml_init)) {
    std::fprintf(stderr, "ggml_init of the program is not the one in sight\n");
    return false;
  }
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    std::fprintf(stderr, "%s is not loaded\n", kLibrary);
    return false;
  }
  for (const char* name :
       {"ggml_init", "ggml_mul_mat", "ggml_backend_cpu_init", "gguf_init_empty"}) {
    if (dlsym(library, name) != nullptr) {
      std::fprintf(stderr, "%s shows %s\n", kLibrary, name);
      return false;
    }
  }
  return true;
}

#define CHECK_OWN_GGML()                               \
  do {                                                 \
    if (!own_ggml_works()) {                           \
      std::fprintf(stderr, "own ggml is disturbed\n"); \
      return 1;                                        \
    }                                                  \
  } while (0)
#else
bool symbols_are_apart() { return true; }
#define CHECK_OWN_GGML() \
  do {                   \
  } while (0)
#endif

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s MODEL.pte\n", argv[0]);
    return 2;
  }
  CHECK_OWN_GGML();
  Module module(argv[1]);
  const auto meta = module.method_meta("forward");
  if (!meta.ok()) {
    std::fprintf(stderr, "cannot read %s\n", argv[1]);
    return 1;
  }
  if (!meta->uses_backend("GgmlBackend")) {
    std::fprintf(stderr, "%s does not use the backend\n", argv[1]);
    return 1;
  }
  const auto sizes = meta->input_tensor_meta(0)->sizes();
  const TensorPtr input = executorch::extension::ones({sizes.begin(), sizes.end()});
  for (int run = 0; run < 2; ++run) {
    CHECK_OWN_GGML();
    const auto outputs = module.forward(input);
    if (!outputs.ok()) {
      std::fprintf(stderr, "forward failed: error %d\n", static_cast<int>(outputs.error()));
      return 1;
    }
    if (run == 1) {
      const auto tensor = outputs->at(0).toTensor();
      const auto* values = tensor.const_data_ptr<float>();
      for (ssize_t i = 0; i < tensor.numel(); ++i) {
        std::printf("%.9g\n", static_cast<double>(values[i]));
      }
    }
  }
  CHECK_OWN_GGML();
  return symbols_are_apart() ? 0 : 1;
}
