// Goal: addresses are read as written, and only this machine's own count as loopback.
#include "server/listen_address.h"

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(ListenAddressTest, ReadsHostAndPort) {
  struct Case {
    const char* text;
    const char* host;
    int port;
    bool loopback;
  };
  for (const Case& c :
       {Case{"127.0.0.1:50551", "127.0.0.1", 50551, true},
        Case{"127.8.9.1:0", "127.8.9.1", 0, true}, Case{"localhost:1", "localhost", 1, true},
        Case{"LOCALHOST:1", "LOCALHOST", 1, true}, Case{"[::1]:65535", "[::1]", 65535, true},
        Case{"[::]:80", "[::]", 80, false}, Case{"0.0.0.0:80", "0.0.0.0", 80, false},
        Case{"10.0.0.127:80", "10.0.0.127", 80, false},
        Case{"127.example.com:80", "127.example.com", 80, false},
        Case{"localhost.example.com:80", "localhost.example.com", 80, false},
        Case{"trainer-7:80", "trainer-7", 80, false}}) {
    SCOPED_TRACE(c.text);
    const absl::StatusOr<ListenAddress> address = ParseListenAddress(c.text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->host, c.host);
    EXPECT_EQ(address->port, c.port);
    EXPECT_EQ(address->is_loopback(), c.loopback);
    EXPECT_EQ(address->ToString(), c.text);
  }
}

TEST(ListenAddressTest, RefusesTheRest) {
  for (const char* text :
       {"", "127.0.0.1", ":50551", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536",
        "127.0.0.1:-1", "127.0.0.1:+1", "127.0.0.1: 1", "::1:50551", "127.0.0.1:99999999999"}) {
    EXPECT_EQ(ParseListenAddress(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace lockstep
