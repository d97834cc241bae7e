// The address that the server listens on: host:port, [IPv6]:port. A plain value.
#ifndef LOCKSTEP_SERVER_LISTEN_ADDRESS_H_
#define LOCKSTEP_SERVER_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lockstep {

struct ListenAddress {
  std::string host;  // IPv6 in brackets
  int port = 0;      // 0: the system picks one

  // Only reachable from this machine: 127.0.0.0/8, ::1 or localhost.
  bool is_loopback() const;
  std::string ToString() const;
};

// INVALID_ARGUMENT saying what a good one looks like.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text);

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_LISTEN_ADDRESS_H_
