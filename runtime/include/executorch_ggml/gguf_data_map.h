// A .gguf file as ExecuTorch named data.
//
//   auto weights = executorch_ggml::GgufDataMap::load("model.gguf");
//   if (!weights.ok()) return weights.error();   // the reason is logged
//   program->load_method("forward", &memory_manager, nullptr, weights->get());
//
// Keys: each tensor's name, whose data are its bytes in the mapped file, without a
// copy; and "ggml.tensor:" + name, whose data is a TensorDescriptor. Merges with
// other maps through ExecuTorch's MergedDataMap.
#pragma once

#include <executorch/runtime/core/named_data_map.h>
#include <executorch/runtime/core/span.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "executorch_ggml/export.h"
#include "executorch_ggml/tensor_descriptor.h"

namespace executorch_ggml {

// Safe to read from several threads. Data and keys are valid as long as the map.
class EXECUTORCH_GGML_API GgufDataMap final : public executorch::runtime::NamedDataMap {
 public:
  using Loaded = executorch::runtime::Result<std::unique_ptr<GgufDataMap>>;

  // Maps and checks a GGUF file (version 2 or 3). AccessFailed: the file cannot
  // be opened; InvalidExternalData: it is malformed. The reason is logged, or,
  // in the second form, put into `message` instead.
  static Loaded load(const std::string& path);
  static Loaded load(const std::string& path, std::string& message);

  // The same for a file that is in memory already; `bytes` must outlive the map.
  static Loaded from_memory(executorch::runtime::Span<const uint8_t> bytes, std::string& message);

  ~GgufDataMap() override;
  GgufDataMap(const GgufDataMap&) = delete;
  GgufDataMap& operator=(const GgufDataMap&) = delete;
  GgufDataMap(GgufDataMap&&) = delete;
  GgufDataMap& operator=(GgufDataMap&&) = delete;

  // NamedDataMap. Unknown keys are NotFound.

  // Sizes in torch order. A quantized tensor is Byte, its last size the bytes of
  // a row. NotSupported: a size that ExecuTorch's int32 sizes cannot say.
  [[nodiscard]] executorch::runtime::Result<const executorch::runtime::TensorLayout>
  get_tensor_layout(std::string_view key) const override;

  // The buffer owns nothing. InvalidExternalData: the file was shortened since
  // it was loaded, so that its bytes can no longer be read.
  [[nodiscard]] executorch::runtime::Result<executorch::runtime::FreeableBuffer> get_data(
      std::string_view key) const override;

  // Copies the first `size` bytes. InvalidArgument: the data has fewer.
  [[nodiscard]] executorch::runtime::Error load_data_into(std::string_view key, void* buffer,
                                                          size_t size) const override;

  [[nodiscard]] executorch::runtime::Result<uint32_t> get_num_keys() const override;
  [[nodiscard]] executorch::runtime::Result<const char*> get_key(uint32_t index) const override;

  // What the file says about the model. Absent: the file does not say, or says
  // it in another type.
  std::optional<std::string> metadata_string(std::string_view key) const;
  std::optional<int64_t> metadata_i64(std::string_view key) const;
  std::optional<double> metadata_f64(std::string_view key) const;
  std::optional<bool> metadata_bool(std::string_view key) const;

  std::optional<std::string> architecture() const;  // general.architecture
  std::optional<std::string> name() const;          // general.name
  std::optional<int64_t> context_length() const;    // positions the model was made for
  std::optional<int64_t> bos_token_id() const;
  std::optional<int64_t> eos_token_id() const;

  uint32_t n_tensors() const;
  size_t file_size() const;  // bytes

 private:
  struct Impl;
  explicit GgufDataMap(std::unique_ptr<Impl> impl);

  std::unique_ptr<const Impl> impl_;
};

}  // namespace executorch_ggml
