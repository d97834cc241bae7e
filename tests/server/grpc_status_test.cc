// Goal: every code gets through unchanged, and no message is too long to be sent.
#include "server/grpc_status.h"

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(GrpcStatusTest, EveryCode) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status =
        ToGrpcStatus(absl::Status(static_cast<absl::StatusCode>(code), "why"));
    EXPECT_EQ(status.error_code(), code);
    EXPECT_EQ(status.error_message(), "why");
  }
  EXPECT_EQ(ToGrpcStatus(absl::InvalidArgumentError("")).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ToGrpcStatus(absl::UnavailableError("")).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(GrpcStatusTest, LongMessagesAreCut) {
  const grpc::Status status = ToGrpcStatus(absl::InternalError(std::string(100000, 'x')));
  EXPECT_LT(status.error_message().size(), 8192u / 3);
  EXPECT_EQ(status.error_message().substr(0, 4), "xxxx");
  EXPECT_EQ(status.error_message().substr(status.error_message().size() - 4), "x...");
}

}  // namespace
}  // namespace lockstep
