// CheckCanListen(): tries the address with a socket of its own.
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/grpc_server.h"

namespace lockstep {
namespace {

absl::Status CannotListen(const ListenAddress& address, const char* reason) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address.ToString(), ": ", reason));
}

}  // namespace

absl::Status CheckCanListen(const ListenAddress& address) {
  const std::string host(absl::StripSuffix(absl::StripPrefix(address.host, "["), "]"));
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (error != 0) return CannotListen(address, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);

  const int socket_fd = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
  if (socket_fd < 0) return CannotListen(address, std::strerror(errno));
  // As gRPC does: connections of a predecessor that are not quite gone do not count.
  const int on = 1;
  setsockopt(socket_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool bound = bind(socket_fd, found->ai_addr, found->ai_addrlen) == 0;
  const int bind_error = errno;
  close(socket_fd);
  return bound ? absl::OkStatus() : CannotListen(address, std::strerror(bind_error));
}

}  // namespace lockstep
