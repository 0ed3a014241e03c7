// A file on disk for the length of a test.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace executorch_ggml::testing {

class TempFile {
 public:
  // `suffix` ends the name, for what looks at it (".gguf").
  explicit TempFile(std::span<const uint8_t> bytes, std::string_view suffix = "") {
    static std::atomic<int> counter = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("executorch_ggml_test_" + std::to_string(::getpid()) + "_" +
             std::to_string(counter++) + std::string(suffix));
    std::ofstream stream(path_, std::ios::binary);
    stream.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
  }
  ~TempFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  std::string path() const { return path_.string(); }
  void resize(size_t size) const { std::filesystem::resize_file(path_, size); }

 private:
  std::filesystem::path path_;
};

}  // namespace executorch_ggml::testing
