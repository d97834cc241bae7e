// Early return on an error, for functions that return absl::Status or absl::StatusOr.
//
//   LOCKSTEP_RETURN_IF_ERROR(Validate(config));
//   LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::Create(config));
//
// A type with a comma in it needs its own alias or `auto` on the left of LOCKSTEP_ASSIGN_OR_RETURN.
#ifndef LOCKSTEP_CORE_BASE_STATUS_MACROS_H_
#define LOCKSTEP_CORE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define LOCKSTEP_RETURN_IF_ERROR(expression)                                    \
  do {                                                                          \
    if (::absl::Status lockstep_status = (expression); !lockstep_status.ok()) { \
      return lockstep_status;                                                   \
    }                                                                           \
  } while (false)

#define LOCKSTEP_ASSIGN_OR_RETURN(lhs, expression) \
  LOCKSTEP_ASSIGN_OR_RETURN_(LOCKSTEP_CONCAT_(lockstep_status_or_, __LINE__), lhs, expression)

#define LOCKSTEP_ASSIGN_OR_RETURN_(status_or, lhs, expression) \
  auto status_or = (expression);                               \
  if (!status_or.ok()) return std::move(status_or).status();   \
  lhs = *std::move(status_or)

#define LOCKSTEP_CONCAT_(a, b) LOCKSTEP_CONCAT_INNER_(a, b)
#define LOCKSTEP_CONCAT_INNER_(a, b) a##b

#endif  // LOCKSTEP_CORE_BASE_STATUS_MACROS_H_
