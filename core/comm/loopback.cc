#include "core/comm/loopback.h"

#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/check.h"
#include "core/base/mutex.h"

namespace lockstep {
namespace {

struct Message {
  uint64_t tag = 0;
  Tensor tensor;
};

// The tensors under way from one rank to another. What is under way is bounded by the plans in
// flight, which the driver bounds; so sending never waits and two ranks cannot wait for each other.
class Mailbox {
 public:
  bool Put(Message message) {
    {
      MutexLock lock(mu_);
      if (closed_) return false;
      messages_.push_back(std::move(message));
    }
    arrived_.Signal();
    return true;
  }

  enum class Outcome { kTaken, kTimedOut, kClosed };
  Outcome Take(absl::Time deadline, Message* message) {
    MutexLock lock(mu_);
    while (messages_.empty() && !closed_) {
      if (arrived_.WaitUntil(mu_, deadline)) continue;
      if (messages_.empty() && !closed_) return Outcome::kTimedOut;
    }
    if (closed_) return Outcome::kClosed;
    *message = std::move(messages_.front());
    messages_.pop_front();
    return Outcome::kTaken;
  }

  void Close() {
    {
      MutexLock lock(mu_);
      closed_ = true;
    }
    arrived_.SignalAll();
  }

 private:
  CondVar arrived_;
  Mutex mu_;
  std::deque<Message> messages_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

struct Group {
  Group(std::string name, int size, absl::Duration timeout)
      : name(std::move(name)), size(size), timeout(timeout), mailboxes(size * size) {}

  Mailbox& From(int sender, int receiver) { return mailboxes[sender * size + receiver]; }

  const std::string name;
  const int size;
  const absl::Duration timeout;
  std::vector<Mailbox> mailboxes;  // [sender][receiver]
};

class LoopbackCommunicator final : public Communicator {
 public:
  // The group is shared because the last rank to go, in any order, ends it.
  LoopbackCommunicator(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  const std::string& group() const override { return group_->name; }
  int rank() const override { return rank_; }
  int size() const override { return group_->size; }

  absl::Status Send(int peer, uint64_t tag, Tensor tensor) override {
    LOCKSTEP_CHECK(peer >= 0 && peer < group_->size && peer != rank_) << "peer " << peer;
    if (!group_->From(rank_, peer).Put({tag, std::move(tensor)})) {
      return absl::UnavailableError(absl::StrCat(Describe("send", peer, tag), ": shut down"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Tensor> Receive(int peer, uint64_t tag) override {
    LOCKSTEP_CHECK(peer >= 0 && peer < group_->size && peer != rank_) << "peer " << peer;
    Message message;
    switch (group_->From(peer, rank_).Take(absl::Now() + group_->timeout, &message)) {
      case Mailbox::Outcome::kTaken:
        break;
      case Mailbox::Outcome::kTimedOut:
        return absl::UnavailableError(absl::StrCat(Describe("receive", peer, tag),
                                                   ": nothing within ",
                                                   absl::FormatDuration(group_->timeout)));
      case Mailbox::Outcome::kClosed:
        return absl::UnavailableError(absl::StrCat(Describe("receive", peer, tag), ": shut down"));
    }
    if (message.tag != tag) {
      return absl::InternalError(
          absl::StrCat(Describe("receive", peer, tag), ": got tag ", message.tag));
    }
    return std::move(message.tensor);
  }

  void Shutdown() override {
    for (Mailbox& mailbox : group_->mailboxes) mailbox.Close();
  }

 private:
  std::string Describe(const char* operation, int peer, uint64_t tag) const {
    return absl::StrCat("group ", group_->name, ", rank ", rank_, ", ", operation, " with rank ",
                        peer, ", tag ", tag);
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> CreateLoopbackGroup(const std::string& name, int size,
                                                               absl::Duration timeout) {
  auto group = std::make_shared<Group>(name, size, timeout);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<LoopbackCommunicator>(group, rank));
  }
  return ranks;
}

}  // namespace lockstep
