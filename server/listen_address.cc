#include "server/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

constexpr int kPortMax = 65535;

}  // namespace

bool ListenAddress::is_loopback() const {
  if (absl::EqualsIgnoreCase(host, "localhost")) return true;
  in_addr v4 = {};
  // The whole of 127.0.0.0/8; a name such as 127.example.com does not parse as an address.
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6 = {};
  const std::string inside = host.size() > 2 ? host.substr(1, host.size() - 2) : "";
  return inet_pton(AF_INET6, inside.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

std::string ListenAddress::ToString() const { return absl::StrCat(host, ":", port); }

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text) {
  const auto refuse = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ", is \"", text, "\"; an example: 127.0.0.1:50551"));
  };
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return refuse("must be host:port");
  ListenAddress address{.host = std::string(text.substr(0, colon))};
  const absl::string_view port = text.substr(colon + 1);
  const bool in_brackets = absl::StartsWith(address.host, "[") && absl::EndsWith(address.host, "]");
  if (address.host.empty()) return refuse("must name a host");
  if (absl::StrContains(address.host, ":") && !in_brackets) {
    return refuse("must have an IPv6 host in brackets");
  }
  // SimpleAtoi takes signs and spaces.
  const bool all_digits =
      !port.empty() && port.find_first_not_of("0123456789") == absl::string_view::npos;
  if (!all_digits || !absl::SimpleAtoi(port, &address.port) || address.port > kPortMax) {
    return refuse("must have a port in [0, 65535]");
  }
  return address;
}

}  // namespace lockstep
