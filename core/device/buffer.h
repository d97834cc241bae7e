#ifndef LOCKSTEP_CORE_DEVICE_BUFFER_H_
#define LOCKSTEP_CORE_DEVICE_BUFFER_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace lockstep {

// A fixed number of elements of host memory, aligned to a cache line and zeroed. Moves, never
// copies by accident. Not synchronised: one owner.
template <typename T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size) : size_(size) {
    if (size == 0) return;
    const size_t bytes = (static_cast<size_t>(size) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    data_.reset(static_cast<T*>(std::aligned_alloc(kAlignment, bytes)));
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_.get(), 0, bytes);
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  int64_t size() const { return size_; }
  T& operator[](int64_t i) { return data_.get()[i]; }
  const T& operator[](int64_t i) const { return data_.get()[i]; }

  // Keeps the memory when it is large enough already; contents are unspecified afterwards.
  void Reserve(int64_t size) {
    if (size > size_) *this = Buffer(size);
  }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };

  std::unique_ptr<T, Free> data_;
  int64_t size_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_DEVICE_BUFFER_H_
