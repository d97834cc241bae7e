#include "server/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "absl/time/clock.h"

namespace lockstep {
namespace {

// Sent by the working thread to the waiting one.
constexpr int kWorkDone = SIGUSR1;

}  // namespace

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  for (int signal : {SIGINT, SIGTERM, kWorkDone}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  // A client that goes away is an error of a write.
  std::signal(SIGPIPE, SIG_IGN);
}

std::string StopSignals::Wait() {
  int signal = 0;
  do {
    sigwait(&signals_, &signal);
  } while (signal == kWorkDone);  // sent by somebody outside: means nothing here
  return signal == SIGINT ? "SIGINT" : "SIGTERM";
}

bool StopSignals::RunUnlessHurried(std::function<void()> work, absl::Duration limit) {
  std::thread([work = std::move(work)] {
    work();
    kill(getpid(), kWorkDone);
  }).detach();
  const absl::Time end = absl::Now() + limit;
  while (true) {
    const timespec left = absl::ToTimespec(std::max(end - absl::Now(), absl::ZeroDuration()));
    const int signal = sigtimedwait(&signals_, nullptr, &left);
    if (signal == kWorkDone) return true;
    if (signal > 0 || errno == EAGAIN) return false;
  }
}

}  // namespace lockstep
