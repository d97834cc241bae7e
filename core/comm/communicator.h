// One rank's end of a named group of ranks that pass tensors to each other. Loopback (threads of
// one process) is the body that exists; others follow the same interface.
//
// Messages between two ranks arrive in the order they were sent. Each carries a tag, and a receiver
// names the tag it expects: a difference is a bug in the plan, reported instead of computed with.
//
// Thread safety: a communicator belongs to the thread of its rank; Shutdown may be called from any.
#ifndef LOCKSTEP_CORE_COMM_COMMUNICATOR_H_
#define LOCKSTEP_CORE_COMM_COMMUNICATOR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/comm/tensor.h"

namespace lockstep {

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual const std::string& group() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Returns at once; the tensor is on its way. UNAVAILABLE after Shutdown.
  virtual absl::Status Send(int peer, uint64_t tag, Tensor tensor) = 0;

  // Waits for the next tensor from `peer`. UNAVAILABLE, naming group, ranks and tag, when none came
  // within the group's timeout or after Shutdown; INTERNAL when it carries another tag.
  virtual absl::StatusOr<Tensor> Receive(int peer, uint64_t tag) = 0;

  // Ends every wait in the whole group.
  virtual void Shutdown() = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_COMM_COMMUNICATOR_H_
