// Programs of ours as real processes, for tests of what only a process shows: start-up, signals,
// exit codes.
//
// Not thread safe: one thread starts and stops.
#ifndef LOCKSTEP_TESTS_SUPPORT_SERVER_PROCESS_H_
#define LOCKSTEP_TESTS_SUPPORT_SERVER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

// Paths below the root of the runfiles, where tests run.
inline constexpr char kServerBinary[] = "server/lockstep_server";
inline constexpr char kCliBinary[] = "client/cli/lockstep";

// How a process ended and what it wrote.
struct ProcessResult {
  int exit_code = -1;  // -1: by a signal
  int signal = 0;
  std::string out;
  std::string err;
};

// Runs a program to its end.
ProcessResult RunProcess(const std::string& binary, const std::vector<std::string>& arguments);

// A process whose standard output and error go to files of the test's temporary directory. Killed
// when the object or the test's process goes.
class Process {
 public:
  Process(const std::string& binary, const std::vector<std::string>& arguments);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Signal(int signal);
  // Waits for the end, however it comes.
  ProcessResult Wait();
  // Reads standard output until a line holds `text`; false when the output ends before.
  bool WaitForLine(const std::string& text);

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int out_fd_ = -1;  // the reading end of a pipe
  std::string out_;
  std::string err_path_;
  bool ended_ = false;
};

// A lockstep_server that accepts calls, on 127.0.0.1 and a port that the system picked.
class ServerProcess {
 public:
  // `flags`: beyond --listen and --port_file. An error has what the server wrote before it ended.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(
      const std::vector<std::string>& flags, const std::string& binary = kServerBinary);

  std::string address() const;
  int port() const { return port_; }
  const std::string& port_file() const { return port_file_; }
  Process& process() { return *process_; }

  // SIGTERM, and how the server ended.
  ProcessResult Stop();

 private:
  ServerProcess() = default;

  std::string port_file_;
  std::unique_ptr<Process> process_;
  int port_ = 0;
};

// A directory with the tiny byte-level model, made once for the process by `lockstep_server
// init-model`.
const std::string& TinyModelDirectory();

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_SERVER_PROCESS_H_
