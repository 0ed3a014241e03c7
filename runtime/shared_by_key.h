// What a process has once for all who ask for the same: thread pools, weights in another form.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/status.h"

namespace executorch_ggml {

// An object lives while somebody has it.
template <typename Key, typename T>
class SharedByKey {
 public:
  // The object of `key`: somebody's, or what make(out) gives, which returns a Status.
  template <typename Make>
  Status get(const Key& key, std::shared_ptr<T>& out, Make&& make) {
    const std::lock_guard lock(mutex_);
    std::erase_if(objects_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<T>& object = objects_[key];
    out = object.lock();
    if (out == nullptr) {
      EG_RETURN_IF_ERROR(std::forward<Make>(make)(out));
      object = out;
    }
    return {};
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<T>> objects_;
};

}  // namespace executorch_ggml
