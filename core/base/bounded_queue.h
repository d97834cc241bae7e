// A first-in first-out queue between threads that never holds more than `capacity` items: when it
// is full the producer waits or is told, and memory does not grow. Any number of producers and
// consumers.
//
// After Close() nothing more goes in; what is inside still comes out. The queue must outlive the
// threads that use it.
#ifndef LOCKSTEP_CORE_BASE_BOUNDED_QUEUE_H_
#define LOCKSTEP_CORE_BASE_BOUNDED_QUEUE_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/check.h"
#include "core/base/mutex.h"

namespace lockstep {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {
    LOCKSTEP_CHECK_GT(capacity, size_t{0}) << "a queue of no capacity passes nothing on";
  }
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // Takes `item` and returns true, or leaves it untouched and returns false when the queue is full
  // or closed.
  bool TryPush(T&& item) {
    {
      MutexLock lock(mu_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    item_arrived_.Signal();
    return true;
  }

  // Waits for room. DEADLINE_EXCEEDED: the queue stayed full; CANCELLED: it is closed.
  absl::Status Push(T item, absl::Time deadline) {
    {
      MutexLock lock(mu_);
      while (!closed_ && items_.size() >= capacity_) {
        if (!room_made_.WaitUntil(mu_, deadline) && items_.size() >= capacity_ && !closed_) {
          return absl::DeadlineExceededError("queue still full at the deadline");
        }
      }
      if (closed_) return absl::CancelledError("queue closed");
      items_.push_back(std::move(item));
    }
    item_arrived_.Signal();
    return absl::OkStatus();
  }

  // Waits for an item. DEADLINE_EXCEEDED: none came; CANCELLED: the queue is closed and empty.
  absl::StatusOr<T> Pop(absl::Time deadline) {
    std::optional<T> item;
    {
      MutexLock lock(mu_);
      while (items_.empty()) {
        if (closed_) return absl::CancelledError("queue closed");
        if (!item_arrived_.WaitUntil(mu_, deadline) && items_.empty() && !closed_) {
          return absl::DeadlineExceededError("queue still empty at the deadline");
        }
      }
      item = TakeFront();
    }
    room_made_.Signal();
    return *std::move(item);
  }

  // Nothing when the queue is empty.
  std::optional<T> TryPop() {
    std::optional<T> item;
    {
      MutexLock lock(mu_);
      if (items_.empty()) return std::nullopt;
      item = TakeFront();
    }
    room_made_.Signal();
    return item;
  }

  // Wakes everybody who waits. May be called more than once.
  void Close() {
    {
      MutexLock lock(mu_);
      closed_ = true;
    }
    item_arrived_.SignalAll();
    room_made_.SignalAll();
  }

  size_t size() const {
    MutexLock lock(mu_);
    return items_.size();
  }
  size_t capacity() const { return capacity_; }

 private:
  T TakeFront() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

  const size_t capacity_;

  CondVar item_arrived_;
  CondVar room_made_;

  mutable Mutex mu_;
  std::deque<T> items_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_BASE_BOUNDED_QUEUE_H_
