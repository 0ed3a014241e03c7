// MappedFile: what can be mapped, and what each failure says.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/platform/mmap.h"
#include "tests/cpp/temp_file.h"

namespace executorch_ggml {
namespace {

using testing::TempFile;

std::vector<uint8_t> counting(size_t size) {
  std::vector<uint8_t> bytes(size);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  return bytes;
}

// "'<path>' <rest>"
std::string about(const std::string& path, const char* rest) {
  std::string message = "'";
  return message.append(path).append("' ").append(rest);
}

TEST(MappedFile, ShowsTheBytesOfAFile) {
  const std::vector<uint8_t> expected = counting(10000);
  const TempFile temp(expected);
  MappedFile file;
  const Status status = MappedFile::open(temp.path(), file);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(std::ranges::equal(file.bytes(), expected));
  EXPECT_EQ(file.path(), temp.path());
  EXPECT_TRUE(file.check_not_truncated().ok());
}

TEST(MappedFile, AdviceOfAnyRangeIsHarmless) {
  const std::vector<uint8_t> expected = counting(10000);
  const TempFile temp(expected);
  MappedFile file;
  ASSERT_TRUE(MappedFile::open(temp.path(), file).ok());
  for (const Access access :
       {Access::Normal, Access::Sequential, Access::Random, Access::WillNeed}) {
    file.advise(access, 0, 10000);
    file.advise(access, 5001, 17);
    file.advise(access, 9999, SIZE_MAX);
    file.advise(access, 10000, 1);
    file.advise(access, SIZE_MAX, SIZE_MAX);
    file.advise(access, 3, 0);
  }
  EXPECT_TRUE(std::ranges::equal(file.bytes(), expected));
}

TEST(MappedFile, MovesTheMapping) {
  const TempFile temp(counting(100));
  const TempFile other(counting(7));
  MappedFile first;
  ASSERT_TRUE(MappedFile::open(temp.path(), first).ok());
  const uint8_t* const data = first.bytes().data();
  MappedFile second(std::move(first));
  EXPECT_EQ(second.bytes().data(), data);
  ASSERT_TRUE(MappedFile::open(other.path(), first).ok());
  first = std::move(second);  // the mapping of `other` is released
  EXPECT_EQ(first.bytes().data(), data);
  EXPECT_EQ(first.bytes()[99], 99);
}

TEST(MappedFile, OutlivesTheNameOnDisk) {
  MappedFile file;
  {
    const TempFile temp(counting(100));
    ASSERT_TRUE(MappedFile::open(temp.path(), file).ok());
  }
  EXPECT_EQ(file.bytes()[42], 42);
  EXPECT_TRUE(file.check_not_truncated().ok());
}

TEST(MappedFile, NamesWhatCannotBeMapped) {
  MappedFile file;
  const Status missing = MappedFile::open("/no/such/model.gguf", file);
  EXPECT_EQ(missing.code(), StatusCode::NotFound);
  EXPECT_EQ(missing.message(), "cannot open '/no/such/model.gguf': No such file or directory");

  const TempFile empty({});
  const Status nothing = MappedFile::open(empty.path(), file);
  EXPECT_EQ(nothing.code(), StatusCode::InvalidExternalData);
  EXPECT_EQ(nothing.message(), about(empty.path(), "is empty"));

  const std::string folder = std::filesystem::temp_directory_path().string();
  EXPECT_EQ(MappedFile::open(folder, file).message(),
            about(folder, "is a directory; a regular file is needed"));

  const TempFile name({});
  const std::string pipe = name.path() + ".pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(pipe, file).message(),
            about(pipe, "is a pipe; a regular file is needed"));
  std::filesystem::remove(pipe);

  EXPECT_EQ(MappedFile::open("/dev/null", file).message(),
            "'/dev/null' is a device; a regular file is needed");
  EXPECT_TRUE(file.bytes().empty());
}

TEST(MappedFile, NoticesAFileThatShrinks) {
  const TempFile temp(counting(10000));
  MappedFile file;
  ASSERT_TRUE(MappedFile::open(temp.path(), file).ok());
  temp.resize(20000);
  EXPECT_TRUE(file.check_not_truncated().ok());
  temp.resize(9999);
  const Status status = file.check_not_truncated();
  EXPECT_EQ(status.code(), StatusCode::InvalidExternalData);
  EXPECT_NE(status.message().find("shortened from 10000 to 9999 bytes"), std::string::npos)
      << status.message();
}

TEST(MappedFile, ReadsItsBytesFromTheFile) {
  const std::vector<uint8_t> expected = counting(10000);
  const TempFile temp(expected);
  const TempFile other(counting(100));
  MappedFile file;
  MappedFile neighbour;
  ASSERT_TRUE(MappedFile::open(temp.path(), file).ok());
  ASSERT_TRUE(MappedFile::open(other.path(), neighbour).ok());
  MappedFile moved(std::move(file));
  const uint8_t* const data = moved.bytes().data();
  EXPECT_TRUE(MappedFile::holds(data, 10000));
  EXPECT_TRUE(MappedFile::holds(data + 9000, 1000));
  EXPECT_FALSE(MappedFile::holds(data + 9000, 1001)) << "reaches past the end";
  EXPECT_FALSE(MappedFile::holds(expected.data(), 1)) << "memory of no file";

  std::vector<uint8_t> target(1000);
  const Status status = MappedFile::read(data + 123, target.size(), target.data());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(std::ranges::equal(target, std::span(expected).subspan(123, 1000)));
  EXPECT_EQ(MappedFile::read(expected.data(), 10, target.data()).code(), StatusCode::InvalidState);

  temp.resize(500);
  const Status shortened = MappedFile::read(data, 1000, target.data());
  EXPECT_EQ(shortened.code(), StatusCode::InvalidExternalData);
  EXPECT_EQ(shortened.message(), "cannot read 500 bytes at 500 of " +
                                     about(temp.path(), "").substr(0, temp.path().size() + 2) +
                                     ": the file was shortened while in use");
  moved = MappedFile();
  EXPECT_FALSE(MappedFile::holds(data, 1)) << "mapped no longer";
}

}  // namespace
}  // namespace executorch_ggml
