// Goal: the port file is whole or absent, and an old one does not survive.
#include "server/port_file.h"

#include <fstream>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(PortFileTest, WritesReplacesAndRemoves) {
  const std::string path = testing::TempDir() + "/port_file_test";
  for (int port : {12345, 6}) {
    ASSERT_TRUE(WritePortFile(path, port).ok());
    std::ifstream file(path);
    int read = 0;
    ASSERT_TRUE(file >> read);
    EXPECT_EQ(read, port);
  }
  EXPECT_TRUE(RemovePortFile(path).ok());
  EXPECT_FALSE(std::ifstream(path).good());
  EXPECT_TRUE(RemovePortFile(path).ok()) << "nothing to remove is fine";
}

TEST(PortFileTest, NamesThePathThatCannotBeWritten) {
  const absl::Status status = WritePortFile("/nowhere/port", 1);
  EXPECT_EQ(status.message(), "port_file: /nowhere/port: No such file or directory");
  EXPECT_FALSE(RemovePortFile("/dev/null/port").ok());
}

}  // namespace
}  // namespace lockstep
