// What a data map holds for a weight: its bytes, their type and extents, and whether
// they are what the program declares.
#pragma once

#include <executorch/runtime/core/named_data_map.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "ggml.h"
#include "runtime/program.h"
#include "runtime/status.h"

namespace executorch_ggml {

// A weight found under one of its keys, checked.
struct WeightSource {
  std::optional<executorch::runtime::FreeableBuffer> bytes;  // set
  const std::string* key = nullptr;                          // the weight's
  ggml_type type = GGML_TYPE_COUNT;                          // of the bytes
  std::array<int64_t, 4> ne = {1, 1, 1, 1};
  bool to_f32 = false;  // the program or a kernel wants another type than the file has
};

// Collects what is wrong with the weights, so that one message tells all.
class WeightComplaints {
 public:
  void missing(const Weight& weight);
  void mismatch(const std::string& text);
  // Ok, NotFound when weights are missing and nothing else is wrong, or
  // InvalidExternalData; lists the first ten of `n_weights`.
  Status status(size_t n_weights) const;

 private:
  void add(const std::string& text);

  std::string list_;
  size_t count_ = 0;
  bool only_missing_ = true;
};

// Looks a weight up. nullopt: it is missing or does not fit, and `complaints` says
// so. `needs_f32`: some kernel takes it as plain F32 only.
std::optional<WeightSource> find_weight(const Weight& weight, uint8_t declared_type,
                                        const std::array<int64_t, 4>& declared, bool needs_f32,
                                        const executorch::runtime::NamedDataMap* map,
                                        WeightComplaints& complaints);

}  // namespace executorch_ggml
