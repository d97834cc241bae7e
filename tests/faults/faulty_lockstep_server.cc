// lockstep_server with a fault planted in its kernels: --plant_fault=NAME, NAME as in
// planted_faults.h, before or among the server's own flags. For tests alone.
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string_view>
#include <vector>

#include "server/server_main.h"
#include "tests/faults/planted_faults.h"

namespace {

constexpr std::string_view kFlag = "--plant_fault=";

}  // namespace

int main(int argc, char** argv) {
  lockstep::EngineHooks hooks;
  std::vector<char*> arguments;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, kFlag.size()) != kFlag) {
      arguments.push_back(argv[i]);
      continue;
    }
    const auto fault = lockstep::ParsePlantedFault(argument.substr(kFlag.size()));
    if (!fault.ok()) {
      std::cerr << "faulty_lockstep_server: " << fault.status().message() << std::endl;
      return EXIT_FAILURE;
    }
    hooks = lockstep::Plant(*fault);
  }
  return lockstep::ServerMain(static_cast<int>(arguments.size()), arguments.data(), hooks);
}
