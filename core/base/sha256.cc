#include "core/base/sha256.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"
#include "core/base/check.h"

namespace lockstep {

// OpenSSL's calls here fail only without memory or without its default provider, and nothing a
// request holds causes either.

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  LOCKSTEP_CHECK(context_ != nullptr) << "OpenSSL has no memory for a digest";
  LOCKSTEP_CHECK_EQ(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr), 1)
      << "OpenSSL has no SHA-256";
}

Sha256::~Sha256() = default;

void Sha256::FreeContext::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

void Sha256::Update(const void* bytes, size_t size) {
  LOCKSTEP_CHECK(context_ != nullptr) << "Update after Finish";
  LOCKSTEP_CHECK_EQ(EVP_DigestUpdate(context_.get(), bytes, size), 1);
}

Sha256Digest Sha256::Finish() {
  LOCKSTEP_CHECK(context_ != nullptr) << "Finish called twice";
  Sha256Digest digest;
  unsigned int size = 0;
  LOCKSTEP_CHECK_EQ(EVP_DigestFinal_ex(context_.get(), digest.data(), &size), 1);
  LOCKSTEP_CHECK_EQ(size, digest.size());
  context_.reset();
  return digest;
}

Sha256Digest Sha256Of(absl::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

std::string ToHex(const Sha256Digest& digest) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

}  // namespace lockstep
