// Runs one IR program in this process, for the property tests (tests/property/runner.py).
//
// A shared library of its own, with the runtime inside: a graph made at random needs no
// .pte around it.
#include <cstring>
#include <string>
#include <vector>

#include "tests/cpp/delegate_harness.h"

namespace {

using executorch_ggml::testing::Loaded;
using executorch_ggml::testing::TestTensor;

TestTensor make_tensor(bool is_float, const int32_t* sizes, int32_t rank) {
  std::vector<int32_t> shape(sizes, sizes + rank);
  return is_float ? TestTensor::empty<float>(std::move(shape))
                  : TestTensor::empty<int32_t>(std::move(shape));
}

size_t bytes_of(const TestTensor& tensor) {
  size_t bytes = sizeof(float);  // of both types
  for (const int32_t size : tensor.sizes()) {
    bytes *= static_cast<size_t>(size);
  }
  return bytes;
}

}  // namespace

extern "C" {

// A contiguous tensor, float or int32.
struct IrTensor {
  void* data;
  const int32_t* sizes;
  int32_t rank;
  int32_t is_float;
};

// Null, or what went wrong; the text holds until the next call.
__attribute__((visibility("default"))) const char* run_ir(const uint8_t* blob, size_t size,
                                                          const IrTensor* inputs, size_t n_inputs,
                                                          IrTensor* outputs, size_t n_outputs) {
  static std::string error;
  Loaded loaded = executorch_ggml::testing::load({blob, blob + size});
  if (!loaded.status.ok()) {
    error = "load: " + loaded.status.message();
    return error.c_str();
  }
  std::vector<TestTensor> tensors;
  for (size_t i = 0; i < n_inputs + n_outputs; ++i) {
    const IrTensor& t = i < n_inputs ? inputs[i] : outputs[i - n_inputs];
    tensors.push_back(make_tensor(t.is_float != 0, t.sizes, t.rank));
    if (i < n_inputs) {
      std::memcpy(tensors[i].data<char>(), t.data, bytes_of(tensors[i]));
    }
  }
  std::vector<const TestTensor*> in;
  std::vector<const TestTensor*> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    (i < n_inputs ? in : out).push_back(&tensors[i]);
  }
  const executorch_ggml::Status status = run(*loaded.delegate, in, out);
  if (!status.ok()) {
    error = "run: " + status.message();
    return error.c_str();
  }
  for (size_t i = 0; i < n_outputs; ++i) {
    std::memcpy(outputs[i].data, tensors[n_inputs + i].data<char>(),
                bytes_of(tensors[n_inputs + i]));
  }
  return nullptr;
}

}  // extern "C"
