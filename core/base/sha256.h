// SHA-256 of bytes that arrive in pieces. Names weights states, payloads of requests and checkpoint
// tensors.
//
// A Sha256 belongs to one thread at a time and is used up by Finish().
#ifndef LOCKSTEP_CORE_BASE_SHA256_H_
#define LOCKSTEP_CORE_BASE_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

// OpenSSL's EVP_MD_CTX, kept out of our headers.
struct evp_md_ctx_st;

namespace lockstep {

using Sha256Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(absl::string_view bytes) { Update(bytes.data(), bytes.size()); }
  void Update(const void* bytes, size_t size);

  // REQUIRES: called once; no Update after it.
  Sha256Digest Finish();

 private:
  struct FreeContext {
    void operator()(evp_md_ctx_st* context) const;
  };

  // Null once finished.
  std::unique_ptr<evp_md_ctx_st, FreeContext> context_;
};

// The digest of one run of bytes.
Sha256Digest Sha256Of(absl::string_view bytes);

// 64 lower-case hexadecimal digits.
std::string ToHex(const Sha256Digest& digest);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_BASE_SHA256_H_
