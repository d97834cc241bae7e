// The whole of lockstep_server: reads flags, environment and files, starts engine and gRPC server,
// waits for a signal, and stops them. With main.cc, the only place that prints and exits.
#ifndef LOCKSTEP_SERVER_SERVER_MAIN_H_
#define LOCKSTEP_SERVER_SERVER_MAIN_H_

#include "core/engine/engine.h"

namespace lockstep {

// What main() returns. `hooks` are for test binaries with planted faults.
int ServerMain(int argc, char** argv, const EngineHooks& hooks = {});

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_SERVER_MAIN_H_
