// A fresh directory that is removed, with all in it, at the end of its scope.
#ifndef LOCKSTEP_TESTS_SUPPORT_TEMP_DIRECTORY_H_
#define LOCKSTEP_TESTS_SUPPORT_TEMP_DIRECTORY_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "core/base/check.h"
#include "gtest/gtest.h"

namespace lockstep {

class TempDirectory {
 public:
  TempDirectory() : path_(testing::TempDir() + "/lockstep-XXXXXX") {
    LOCKSTEP_CHECK(::mkdtemp(path_.data()) != nullptr) << path_;
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }

  void Write(const std::string& name, const std::string& contents) const {
    std::ofstream file(PathOf(name), std::ios::binary | std::ios::trunc);
    file << contents;
    LOCKSTEP_CHECK(file.flush().good()) << PathOf(name);
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(PathOf(name), std::ios::binary);
    LOCKSTEP_CHECK(file.good()) << PathOf(name);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  std::string path_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_TEMP_DIRECTORY_H_
