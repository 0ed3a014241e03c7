// A file mapped for reading, for as long as the object lives.
//
// The interface names no operating system; mmap.cpp is its POSIX body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/status.h"

namespace executorch_ggml {

// What is about to be read of a mapped range. A hint: it never changes results.
enum class Access { Normal, Sequential, Random, WillNeed };

class MappedFile {
 public:
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Maps the whole of `path`, page-aligned. A missing file is NotFound; one that
  // cannot be opened, is not a regular file or is empty is InvalidExternalData.
  static Status open(const std::string& path, MappedFile& out);

  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // An error when the file on disk has become shorter than the mapping. Reading
  // the lost part would raise a signal (SIGBUS), so ask before handing out a
  // pointer. Costs one system call.
  Status check_not_truncated() const;

  // Whether bytes that lie in memory are those of a file that is mapped now, whoever has it.
  static bool holds(const void* data, size_t size);

  // Reads such bytes from their file into `target`: their pages of the mapping then take no
  // memory beside the copy. InvalidExternalData where the file has become shorter or cannot be
  // read, InvalidState where none holds them.
  static Status read(const void* data, size_t size, void* target);

  // Ranges that reach past the end are cut there.
  void advise(Access access, size_t offset, size_t length) const;

 private:
  void close() noexcept;

  std::string path_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  intptr_t handle_ = -1;  // the open file, kept so that its size can be asked
};

}  // namespace executorch_ggml
