// A communication group whose ranks are threads of this process: tensors are handed over by
// pointer.
#ifndef LOCKSTEP_CORE_COMM_LOOPBACK_H_
#define LOCKSTEP_CORE_COMM_LOOPBACK_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/comm/communicator.h"

namespace lockstep {

// One communicator per rank, index = rank. They share the group's mailboxes and keep them alive.
// `timeout` bounds every Receive.
std::vector<std::unique_ptr<Communicator>> CreateLoopbackGroup(const std::string& name, int size,
                                                               absl::Duration timeout);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_COMM_LOOPBACK_H_
