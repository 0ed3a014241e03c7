#include "executorch_ggml/gguf_data_map.h"

#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "runtime/gguf_file.h"
#include "runtime/platform/mmap.h"
#include "runtime/status.h"

namespace executorch_ggml {

using executorch::aten::ScalarType;
using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;
using executorch::runtime::TensorLayout;

namespace {

constexpr std::string_view kPrefix = kTensorDescriptorPrefix;
constexpr std::array<uint8_t, 4> kDimOrder = {0, 1, 2, 3};
constexpr std::array<int32_t, 1> kDescriptorSizes = {sizeof(TensorDescriptor)};

Error to_error(StatusCode code) {
  switch (code) {
    case StatusCode::Ok:
      return Error::Ok;
    case StatusCode::NotFound:  // the file, not a key
      return Error::AccessFailed;
    case StatusCode::OutOfMemory:
      return Error::MemoryAllocationFailed;
    case StatusCode::InvalidProgram:
    case StatusCode::InvalidArgument:
    case StatusCode::InvalidExternalData:
    case StatusCode::Unsupported:
    case StatusCode::InvalidState:
    case StatusCode::Internal:
      return Error::InvalidExternalData;
  }
  return Error::InvalidExternalData;
}

// ExecuTorch's type of an unquantized ggml type. Numbers of enum ggml_type.
std::optional<ScalarType> scalar_type(uint32_t ggml_type) {
  switch (ggml_type) {
    case 0:
      return ScalarType::Float;
    case 1:
      return ScalarType::Half;
    case 24:
      return ScalarType::Char;
    case 25:
      return ScalarType::Short;
    case 26:
      return ScalarType::Int;
    case 27:
      return ScalarType::Long;
    case 28:
      return ScalarType::Double;
    case 30:
      return ScalarType::BFloat16;
    default:
      return std::nullopt;
  }
}

// What get_tensor_layout answers, kept because a TensorLayout refers to its sizes.
struct Layout {
  std::array<int32_t, 4> sizes = {};  // torch order
  uint8_t n_dims = 0;
  bool representable = false;
  ScalarType type = ScalarType::Byte;
};

Layout make_layout(const GgufTensor& tensor) {
  Layout layout;
  layout.n_dims = static_cast<uint8_t>(tensor.n_dims);
  std::array<int64_t, 4> ne = tensor.ne;
  const std::optional<ScalarType> plain = scalar_type(tensor.type);
  if (plain.has_value()) {
    layout.type = *plain;
  } else {
    const GgmlTypeInfo* info = ggml_type_info(tensor.type);
    ne[0] = ne[0] / info->block_size * info->type_size;
  }
  for (size_t d = 0; d < tensor.n_dims; ++d) {
    if (ne[d] > std::numeric_limits<int32_t>::max()) return layout;
    layout.sizes[tensor.n_dims - 1 - d] = static_cast<int32_t>(ne[d]);
  }
  layout.representable = true;
  return layout;
}

}  // namespace

struct GgufDataMap::Impl {
  MappedFile file;  // unmapped, with no path, for data in memory
  GgufFile gguf;
  // One per tensor, in the file's order. A key holds kPrefix and the name, so
  // that the name alone is its tail.
  std::vector<std::string> keys;
  std::vector<TensorDescriptor> descriptors;
  std::vector<Layout> layouts;

  // The tensor's place in the vectors, and whether the key asks for its descriptor.
  struct Found {
    size_t index;
    bool descriptor;
  };

  std::optional<Found> find(std::string_view key) const {
    const bool descriptor = key.starts_with(kPrefix);
    if (descriptor) key.remove_prefix(kPrefix.size());
    const GgufTensor* tensor = gguf.find_tensor(key);
    if (tensor == nullptr) return std::nullopt;
    return Found{static_cast<size_t>(tensor - gguf.tensors().data()), descriptor};
  }

  std::span<const uint8_t> data(const Found& found) const {
    if (found.descriptor) {
      const TensorDescriptor& descriptor = descriptors[found.index];
      return {reinterpret_cast<const uint8_t*>(&descriptor), sizeof(descriptor)};
    }
    return gguf.data(gguf.tensors()[found.index]);
  }

  // Whether the file's bytes are still there to be read. If not, the reason is
  // logged.
  Error check_readable() const {
    if (file.path().empty()) return Error::Ok;
    const Status status = file.check_not_truncated();
    if (!status.ok()) ET_LOG(Error, "%s", status.message().c_str());
    return to_error(status.code());
  }

  Status index(std::span<const uint8_t> bytes) {
    EG_RETURN_IF_ERROR(GgufFile::parse(bytes, gguf));
    const std::vector<GgufTensor>& tensors = gguf.tensors();
    if (tensors.size() > std::numeric_limits<uint32_t>::max() / 2) {
      return make_error(StatusCode::InvalidExternalData, "%zu tensors are too many",
                        tensors.size());
    }
    keys.reserve(tensors.size());
    descriptors.reserve(tensors.size());
    layouts.reserve(tensors.size());
    for (const GgufTensor& tensor : tensors) {
      if (tensor.name.starts_with(kPrefix)) {
        return make_error(StatusCode::InvalidExternalData,
                          "tensor '%s' has a name that starts with '%s', which is reserved",
                          printable(tensor.name).c_str(), kTensorDescriptorPrefix);
      }
      keys.push_back(std::string(kPrefix).append(tensor.name));
      TensorDescriptor descriptor = {};
      descriptor.magic = kTensorDescriptorMagic;
      descriptor.ggml_type = tensor.type;
      descriptor.n_dims = tensor.n_dims;
      std::ranges::copy(tensor.ne, descriptor.ne);
      descriptors.push_back(descriptor);
      layouts.push_back(make_layout(tensor));
    }
    return {};
  }
};

namespace {

Status open_file(const std::string& path, MappedFile& file) {
  if (path.empty()) return make_error(StatusCode::NotFound, "the path of the GGUF file is empty");
  return MappedFile::open(path, file);
}

// Runs `build` and turns its Status, or an exception of the standard library,
// into an Error and a message.
template <typename Build>
Error guarded(std::string& message, const Build& build) noexcept {
  try {
    const Status status = build();
    message = status.message();
    return to_error(status.code());
  } catch (const std::bad_alloc&) {
    message.clear();  // short enough to be stored without an allocation
    message += "out of memory";
    return Error::MemoryAllocationFailed;
  } catch (const std::exception&) {
    message.clear();
    message += "internal error";
    return Error::Internal;
  }
}

}  // namespace

GgufDataMap::GgufDataMap(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GgufDataMap::~GgufDataMap() = default;

GgufDataMap::Loaded GgufDataMap::load(const std::string& path) {
  std::string message;
  Loaded loaded = load(path, message);
  if (!loaded.ok()) ET_LOG(Error, "%s", message.c_str());
  return loaded;
}

GgufDataMap::Loaded GgufDataMap::load(const std::string& path, std::string& message) {
  std::unique_ptr<GgufDataMap> result;
  const Error error = guarded(message, [&]() -> Status {
    auto impl = std::make_unique<Impl>();
    EG_RETURN_IF_ERROR(open_file(path, impl->file));
    const Status status = impl->index(impl->file.bytes());
    if (!status.ok()) {
      return Status(status.code(), "GGUF file '" + path + "': " + status.message());
    }
    // Weights are read front to back by the first call: let the disk start now.
    const size_t start = impl->gguf.data_offset();
    impl->file.advise(Access::WillNeed, start, impl->file.bytes().size() - start);
    result.reset(new GgufDataMap(std::move(impl)));  // the constructor is private
    return {};
  });
  if (error != Error::Ok) return error;
  return result;
}

GgufDataMap::Loaded GgufDataMap::from_memory(Span<const uint8_t> bytes, std::string& message) {
  std::unique_ptr<GgufDataMap> result;
  const Error error = guarded(message, [&]() -> Status {
    auto impl = std::make_unique<Impl>();
    const Status status = impl->index({bytes.data(), bytes.size()});
    if (!status.ok()) return Status(status.code(), "GGUF data: " + status.message());
    result.reset(new GgufDataMap(std::move(impl)));
    return {};
  });
  if (error != Error::Ok) return error;
  return result;
}

Result<const TensorLayout> GgufDataMap::get_tensor_layout(std::string_view key) const {
  const std::optional<Impl::Found> found = impl_->find(key);
  if (!found.has_value()) return Error::NotFound;
  if (found->descriptor) {
    return TensorLayout::create({kDescriptorSizes.data(), kDescriptorSizes.size()},
                                {kDimOrder.data(), 1}, ScalarType::Byte);
  }
  const Layout& layout = impl_->layouts[found->index];
  if (!layout.representable) return Error::NotSupported;
  return TensorLayout::create({layout.sizes.data(), layout.n_dims},
                              {kDimOrder.data(), layout.n_dims}, layout.type);
}

Result<FreeableBuffer> GgufDataMap::get_data(std::string_view key) const {
  const std::optional<Impl::Found> found = impl_->find(key);
  if (!found.has_value()) return Error::NotFound;
  if (!found->descriptor) {
    if (const Error error = impl_->check_readable(); error != Error::Ok) return error;
  }
  const std::span<const uint8_t> data = impl_->data(*found);
  return FreeableBuffer(data.data(), data.size(), nullptr);
}

Error GgufDataMap::load_data_into(std::string_view key, void* buffer, size_t size) const {
  const std::optional<Impl::Found> found = impl_->find(key);
  if (!found.has_value()) return Error::NotFound;
  const std::span<const uint8_t> data = impl_->data(*found);
  if (buffer == nullptr || size > data.size()) {
    ET_LOG(Error, "%zu bytes of '%s' were asked for, but it has %zu", size, printable(key).c_str(),
           data.size());
    return Error::InvalidArgument;
  }
  if (!found->descriptor) {
    if (const Error error = impl_->check_readable(); error != Error::Ok) return error;
  }
  std::memcpy(buffer, data.data(), size);
  return Error::Ok;
}

Result<uint32_t> GgufDataMap::get_num_keys() const { return 2 * n_tensors(); }

Result<const char*> GgufDataMap::get_key(uint32_t index) const {
  if (index >= 2 * n_tensors()) {
    ET_LOG(Error, "key index %" PRIu32 " is out of range: there are %" PRIu32, index,
           2 * n_tensors());
    return Error::InvalidArgument;
  }
  const char* key = impl_->keys[index / 2].c_str();
  return index % 2 == 0 ? key + kPrefix.size() : key;
}

std::optional<std::string> GgufDataMap::metadata_string(std::string_view key) const {
  std::string_view value;
  if (impl_->check_readable() != Error::Ok) return std::nullopt;
  if (!impl_->gguf.get_string(key, value).ok()) return std::nullopt;
  return std::string(value);
}

std::optional<int64_t> GgufDataMap::metadata_i64(std::string_view key) const {
  int64_t value = 0;
  if (impl_->check_readable() != Error::Ok) return std::nullopt;
  if (!impl_->gguf.get_i64(key, value).ok()) return std::nullopt;
  return value;
}

std::optional<double> GgufDataMap::metadata_f64(std::string_view key) const {
  double value = 0;
  if (impl_->check_readable() != Error::Ok) return std::nullopt;
  if (!impl_->gguf.get_f64(key, value).ok()) return std::nullopt;
  return value;
}

std::optional<bool> GgufDataMap::metadata_bool(std::string_view key) const {
  bool value = false;
  if (impl_->check_readable() != Error::Ok) return std::nullopt;
  if (!impl_->gguf.get_bool(key, value).ok()) return std::nullopt;
  return value;
}

std::optional<std::string> GgufDataMap::architecture() const {
  return metadata_string("general.architecture");
}

std::optional<std::string> GgufDataMap::name() const { return metadata_string("general.name"); }

std::optional<int64_t> GgufDataMap::context_length() const {
  const std::optional<std::string> prefix = architecture();
  if (!prefix.has_value()) return std::nullopt;
  return metadata_i64(*prefix + ".context_length");
}

std::optional<int64_t> GgufDataMap::bos_token_id() const {
  return metadata_i64("tokenizer.ggml.bos_token_id");
}

std::optional<int64_t> GgufDataMap::eos_token_id() const {
  return metadata_i64("tokenizer.ggml.eos_token_id");
}

uint32_t GgufDataMap::n_tensors() const { return static_cast<uint32_t>(impl_->keys.size()); }

size_t GgufDataMap::file_size() const { return impl_->gguf.bytes().size(); }

}  // namespace executorch_ggml
