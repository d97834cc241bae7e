#ifndef LOCKSTEP_CORE_DEVICE_BUFFER_H_
#define LOCKSTEP_CORE_DEVICE_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "core/base/check.h"
#include "core/device/zeroed_memory.h"

namespace lockstep {

// A fixed number of elements of host memory, aligned to a cache line and zeroed. Moves, never
// copies by accident. Not synchronised: one owner.
//
// What a model needs is bounded by its configuration and checked against the machine's memory
// before a Buffer is made, so an allocation that fails is a bug of ours and ends the process.
template <typename T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(int64_t size) : size_(size) {
    LOCKSTEP_CHECK_GE(size, 0);
    if (size == 0) return;
    data_ = std::unique_ptr<T, Free>(static_cast<T*>(AllocateZeroed(bytes())), Free{bytes()});
  }
  Buffer(Buffer&& other) noexcept
      : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  int64_t size() const { return size_; }
  T& operator[](int64_t i) { return data_.get()[i]; }
  const T& operator[](int64_t i) const { return data_.get()[i]; }

  // Keeps the memory when it is large enough already; contents are unspecified afterwards.
  void Reserve(int64_t size) {
    if (size <= size_) return;
    *this = Buffer();  // the old memory goes first: the peak is one buffer, not two
    *this = Buffer(size);
  }

 private:
  struct Free {
    size_t bytes = 0;
    void operator()(T* p) const { FreeZeroed(p, bytes); }
  };
  size_t bytes() const { return static_cast<size_t>(size_) * sizeof(T); }

  std::unique_ptr<T, Free> data_;
  int64_t size_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_DEVICE_BUFFER_H_
