// Loads programs as delegates and runs them on tensors, without a .pte.
//
//   TestData data;
//   data.add("w", std::vector<float>{...});
//   Loaded loaded = load(g.finish(), &data);
//   ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
//   TestTensor x({2, 4}, std::vector<float>{...});
//   TestTensor y = TestTensor::empty<float>({2, 3});
//   const Status status = run(*loaded.delegate, {&x}, {&y});
#pragma once

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>
#include <executorch/runtime/core/named_data_map.h>
#include <executorch/runtime/platform/runtime.h>

#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executorch_ggml/tensor_descriptor.h"
#include "ggml.h"
#include "runtime/aligned_buffer.h"
#include "runtime/delegate.h"

namespace executorch_ggml::testing {

namespace et = executorch::runtime;

// Named data in memory, 64-byte aligned unless asked otherwise.
class TestData final : public et::NamedDataMap {
 public:
  template <typename T>
  void add(const std::string& key, const std::vector<T>& values, size_t misalign = 0) {
    add_bytes(key, values.data(), values.size() * sizeof(T), misalign);
  }
  void add_bytes(const std::string& key, const void* bytes, size_t size, size_t misalign = 0) {
    Entry& entry = entries_[key];
    if (!entry.buffer.reserve(size + misalign + 1)) {
      std::abort();
    }
    entry.data = static_cast<char*>(entry.buffer.data()) + misalign;
    entry.size = size;
    std::memcpy(entry.data, bytes, size);
  }
  // What a .gguf says of a tensor.
  void describe(const std::string& key, ggml_type type, std::vector<int64_t> ne) {
    TensorDescriptor d{.magic = kTensorDescriptorMagic,
                       .ggml_type = static_cast<uint32_t>(type),
                       .n_dims = static_cast<uint32_t>(ne.size()),
                       .reserved = 0,
                       .ne = {1, 1, 1, 1}};
    std::copy(ne.begin(), ne.end(), d.ne);
    add_bytes(kTensorDescriptorPrefix + key, &d, sizeof(d));
  }
  // Values as `type`, with their descriptor.
  void add_as(const std::string& key, ggml_type type, std::vector<int64_t> ne,
              const std::vector<float>& values) {
    const int64_t rows = static_cast<int64_t>(values.size()) / ne[0];
    std::vector<char> bytes(ggml_row_size(type, ne[0]) * static_cast<size_t>(rows));
    if (type == GGML_TYPE_F32) {
      std::memcpy(bytes.data(), values.data(), bytes.size());
    } else {
      ggml_quantize_chunk(type, values.data(), bytes.data(), 0, rows, ne[0], nullptr);
    }
    add(key, bytes);
    describe(key, type, std::move(ne));
  }
  const void* data(const std::string& key) const { return entries_.at(key).data; }

  et::Result<const et::TensorLayout> get_tensor_layout(std::string_view) const override {
    return et::Error::NotFound;
  }
  et::Result<et::FreeableBuffer> get_data(std::string_view key) const override {
    const auto found = entries_.find(std::string(key));
    if (found == entries_.end()) {
      return et::Error::NotFound;
    }
    return et::FreeableBuffer(found->second.data, found->second.size, nullptr);
  }
  et::Error load_data_into(std::string_view, void*, size_t) const override {
    return et::Error::NotImplemented;
  }
  et::Result<uint32_t> get_num_keys() const override {
    return static_cast<uint32_t>(entries_.size());
  }
  et::Result<const char*> get_key(uint32_t) const override { return et::Error::NotImplemented; }

 private:
  struct Entry {
    AlignedBuffer buffer;
    char* data = nullptr;
    size_t size = 0;
  };
  std::map<std::string, Entry> entries_;
};

template <typename T>
struct ScalarOf;
template <>
struct ScalarOf<float> {
  static constexpr auto value = executorch::aten::ScalarType::Float;
};
template <>
struct ScalarOf<int64_t> {
  static constexpr auto value = executorch::aten::ScalarType::Long;
};
template <>
struct ScalarOf<int32_t> {
  static constexpr auto value = executorch::aten::ScalarType::Int;
};
template <>
struct ScalarOf<int16_t> {
  static constexpr auto value = executorch::aten::ScalarType::Short;
};
template <>
struct ScalarOf<uint8_t> {
  static constexpr auto value = executorch::aten::ScalarType::Byte;
};
template <>
struct ScalarOf<bool> {
  static constexpr auto value = executorch::aten::ScalarType::Bool;
};
template <>
struct ScalarOf<executorch::aten::Half> {
  static constexpr auto value = executorch::aten::ScalarType::Half;
};
template <>
struct ScalarOf<executorch::aten::BFloat16> {
  static constexpr auto value = executorch::aten::ScalarType::BFloat16;
};

// A tensor with its own memory, for up to `capacity` elements.
class TestTensor {
 public:
  template <typename T>
  TestTensor(std::vector<int32_t> sizes, const std::vector<T>& values, size_t misalign = 0)
      : TestTensor(ScalarOf<T>::value, std::move(sizes), values.size() * sizeof(T), misalign) {
    T* target = data<T>();
    for (size_t i = 0; i < values.size(); ++i) {
      target[i] = values[i];
    }
  }
  template <typename T>
  static TestTensor empty(std::vector<int32_t> sizes, size_t misalign = 0) {
    size_t count = 1;
    for (const int32_t size : sizes) {
      count *= static_cast<size_t>(size);
    }
    return TestTensor(ScalarOf<T>::value, std::move(sizes), count * sizeof(T), misalign);
  }

  template <typename T>
  T* data() const {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  std::vector<T> values() const {
    return std::vector<T>(data<T>(), data<T>() + impl_->numel());
  }
  std::vector<int32_t> sizes() const { return {impl_->sizes().begin(), impl_->sizes().end()}; }
  et::EValue evalue() const { return et::EValue(executorch::aten::Tensor(impl_.get())); }
  void set_dim_order(std::vector<uint8_t> order) {
    std::copy(order.begin(), order.end(), storage_->dim_order.begin());
  }

 private:
  // Addresses that the TensorImpl keeps; it must not move with the TestTensor.
  struct Storage {
    std::vector<int32_t> sizes;
    std::vector<uint8_t> dim_order;
    std::vector<int32_t> strides;
    AlignedBuffer memory;
  };

  TestTensor(executorch::aten::ScalarType type, std::vector<int32_t> sizes, size_t bytes,
             size_t misalign)
      : storage_(std::make_unique<Storage>()) {
    storage_->sizes = std::move(sizes);
    const size_t rank = storage_->sizes.size();
    storage_->dim_order.resize(rank);
    storage_->strides.resize(rank);
    int32_t stride = 1;
    for (size_t i = rank; i-- > 0;) {
      storage_->dim_order[i] = static_cast<uint8_t>(i);
      storage_->strides[i] = stride;
      stride *= storage_->sizes[i];
    }
    if (!storage_->memory.reserve(bytes + misalign + 1)) {
      std::abort();
    }
    data_ = static_cast<char*>(storage_->memory.data()) + misalign;
    std::memset(data_, 0xAB, bytes);
    impl_ = std::make_unique<executorch::aten::TensorImpl>(
        type, static_cast<ssize_t>(rank), storage_->sizes.data(), data_, storage_->dim_order.data(),
        storage_->strides.data(), executorch::aten::TensorShapeDynamism::DYNAMIC_BOUND);
  }

  std::unique_ptr<Storage> storage_;
  char* data_ = nullptr;
  std::unique_ptr<executorch::aten::TensorImpl> impl_;
};

struct Loaded {
  std::unique_ptr<Delegate> delegate;
  Status status;
};

inline Loaded load(const std::vector<uint8_t>& blob, const et::NamedDataMap* data = nullptr,
                   RuntimeOptions options = {}) {
  et::runtime_init();
  Loaded result;
  result.status =
      Delegate::load({.blob = blob, .data = data, .options = std::move(options)}, result.delegate);
  return result;
}

inline Status run(Delegate& delegate, std::vector<const TestTensor*> inputs,
                  std::vector<const TestTensor*> outputs) {
  std::vector<et::EValue> values;
  for (const TestTensor* tensor : inputs) {
    values.push_back(tensor->evalue());
  }
  for (const TestTensor* tensor : outputs) {
    values.push_back(tensor->evalue());
  }
  std::vector<et::EValue*> args;
  for (et::EValue& value : values) {
    args.push_back(&value);
  }
  return delegate.execute({args.data(), args.size()}, nullptr);
}

// 0, 1, 2, ... scaled: distinct values whose products are exact in F32.
inline std::vector<float> ramp(size_t count, float scale = 1.0F, float start = 0.0F) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = start + scale * static_cast<float>(i);
  }
  return values;
}

}  // namespace executorch_ggml::testing
