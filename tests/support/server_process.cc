#include "tests/support/server_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace lockstep {
namespace {

std::string TemporaryDirectory() {
  const char* directory = std::getenv("TEST_TMPDIR");
  return directory == nullptr ? "/tmp" : directory;
}

// A name that no other file of this test has.
std::string TemporaryPath(const std::string& name) {
  static int count = 0;
  return absl::StrCat(TemporaryDirectory(), "/", getpid(), "-", ++count, "-", name);
}

std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

Process::Process(const std::string& binary, const std::vector<std::string>& arguments)
    : err_path_(TemporaryPath("stderr")) {
  std::vector<std::string> words = {binary};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int err_fd = open(err_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  LOCKSTEP_CHECK_GE(err_fd, 0) << err_path_;
  int out_pipe[2];
  LOCKSTEP_CHECK_EQ(pipe2(out_pipe, O_CLOEXEC), 0);

  pid_ = fork();
  LOCKSTEP_CHECK_GE(pid_, 0);
  if (pid_ == 0) {
    // Only what is allowed after a fork of a process with threads.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out_pipe[1], STDOUT_FILENO);
    dup2(err_fd, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(out_pipe[1]);
  close(err_fd);
  out_fd_ = out_pipe[0];
}

Process::~Process() {
  if (!ended_) {
    Signal(SIGKILL);
    Wait();
  }
  close(out_fd_);
}

void Process::Signal(int signal) { kill(pid_, signal); }

bool Process::WaitForLine(const std::string& text) {
  char buffer[4096];
  while (true) {
    const size_t found = out_.find(text);
    if (found != std::string::npos && out_.find('\n', found) != std::string::npos) return true;
    const ssize_t count = read(out_fd_, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    out_.append(buffer, count);
  }
}

ProcessResult Process::Wait() {
  LOCKSTEP_CHECK(!ended_) << "a process ends once";
  char buffer[4096];
  while (true) {
    const ssize_t count = read(out_fd_, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    out_.append(buffer, count);
  }
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  ended_ = true;
  ProcessResult result;
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.out = out_;
  result.err = ReadWholeFile(err_path_);
  return result;
}

ProcessResult RunProcess(const std::string& binary, const std::vector<std::string>& arguments) {
  return Process(binary, arguments).Wait();
}

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(
    const std::vector<std::string>& flags, const std::string& binary) {
  std::unique_ptr<ServerProcess> server(new ServerProcess);
  server->port_file_ = TemporaryPath("port");
  std::vector<std::string> arguments = {"--port_file", server->port_file_};
  bool listens = false;
  for (const std::string& flag : flags) listens = listens || absl::StartsWith(flag, "--listen");
  if (!listens) arguments.push_back("--listen=127.0.0.1:0");
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  server->process_ = std::make_unique<Process>(binary, arguments);
  if (!server->process_->WaitForLine(" ready on ")) {
    const ProcessResult result = server->process_->Wait();
    return absl::UnavailableError(
        absl::StrCat("exit code ", result.exit_code, ", signal ", result.signal, ": ", result.err));
  }
  std::ifstream(server->port_file_) >> server->port_;
  if (server->port_ == 0) return absl::InternalError("ready, but no port in the port file");
  return server;
}

std::string ServerProcess::address() const { return absl::StrCat("127.0.0.1:", port_); }

ProcessResult ServerProcess::Stop() {
  process_->Signal(SIGTERM);
  return process_->Wait();
}

const std::string& TinyModelDirectory() {
  static const std::string* const directory = [] {
    auto* path = new std::string(TemporaryPath("tiny-model"));
    const ProcessResult result = RunProcess(kServerBinary, {"init-model", *path, "--seed=1"});
    LOCKSTEP_CHECK_EQ(result.exit_code, 0) << result.err;
    return path;
  }();
  return *directory;
}

}  // namespace lockstep
