// lockstep: see cli.h. The only file that reads the environment and exits.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "client/cli/cli.h"

int main(int argc, char** argv) {
  lockstep::cli::Surroundings surroundings{.out = std::cout, .err = std::cerr};
  surroundings.err_is_terminal = isatty(STDERR_FILENO) != 0;
  if (const char* address = std::getenv("LOCKSTEP_ADDRESS"); address != nullptr) {
    surroundings.default_address = address;
  }
  return lockstep::cli::Run(std::vector<std::string>(argv + 1, argv + argc), surroundings);
}
