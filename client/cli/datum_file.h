// Training data from a JSONL file.
#ifndef LOCKSTEP_CLIENT_CLI_DATUM_FILE_H_
#define LOCKSTEP_CLIENT_CLI_DATUM_FILE_H_

#include <iosfwd>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/lockstep/v1/training.pb.h"

namespace lockstep::cli {

// The format, for --help.
extern const char kDatumFileFormat[];

// One Datum a line; empty lines are skipped. INVALID_ARGUMENT naming `name` and the line; no data
// at all is an error too.
absl::StatusOr<std::vector<v1::Datum>> ReadDatumFile(std::istream& file, const std::string& name);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLIENT_CLI_DATUM_FILE_H_
