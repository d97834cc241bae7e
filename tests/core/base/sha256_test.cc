// Goal: digests are SHA-256 and do not depend on how the bytes were cut. Method: the published
// vectors of FIPS 180-4 (examples by NIST), then one message in every possible two pieces.
#include "core/base/sha256.h"

#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(Sha256Test, EqualsPublishedVectors) {
  EXPECT_EQ(ToHex(Sha256Of("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(ToHex(Sha256Of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(ToHex(Sha256Of(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, DoesNotDependOnThePieces) {
  std::string message;
  for (int i = 0; i < 200; ++i) message.push_back(static_cast<char>(i * 7));
  const Sha256Digest whole = Sha256Of(message);
  for (size_t cut = 0; cut <= message.size(); ++cut) {
    Sha256 hash;
    hash.Update(absl::string_view(message).substr(0, cut));
    hash.Update(absl::string_view(message).substr(cut));
    EXPECT_EQ(hash.Finish(), whole) << "cut at " << cut;
  }
}

TEST(Sha256DeathTest, UseAfterFinishIsABug) {
  Sha256 hash;
  hash.Finish();
  EXPECT_DEATH(hash.Update("x"), "Update after Finish");
  EXPECT_DEATH(hash.Finish(), "Finish called twice");
}

}  // namespace
}  // namespace lockstep
