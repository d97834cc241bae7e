// The version of this server, reported by --version and GetServerInfo.
#ifndef LOCKSTEP_SERVER_VERSION_H_
#define LOCKSTEP_SERVER_VERSION_H_

namespace lockstep {

inline constexpr char kServerVersion[] = "0.1.0";

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_VERSION_H_
