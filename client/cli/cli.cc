#include "client/cli/cli.h"

#include <ostream>

#include "client/cli/command.h"

namespace lockstep::cli {
namespace {

struct Subcommand {
  const char* name;
  const char* about;
  int (*run)(const Arguments&, const Surroundings&);
};

constexpr Subcommand kSubcommands[] = {
    {"info", "what the server hosts, its state, load and settings", RunInfo},
    {"generate", "sample continuations of a prompt", RunGenerate},
    {"score", "log-probs of given tokens", RunScore},
    {"train", "optimizer steps over a JSONL file of data", RunTrain},
    {"parity", "compare the bits of sampling with those of every other path", RunParity},
    {"export", "write the weights as a Hugging Face directory on the server", RunExport},
};

void PrintUsage(std::ostream& out) {
  out << "lockstep: the client of a Lockstep server, on token ids.\n\n"
         "  lockstep SUBCOMMAND [--flag=value ...]; lockstep SUBCOMMAND --help\n\n";
  for (const Subcommand& subcommand : kSubcommands) {
    out << "  " << subcommand.name << std::string(10 - std::string(subcommand.name).size(), ' ')
        << subcommand.about << "\n";
  }
  out << "\nExit status: 0 done; 1 log-probs differ; 2 bad flags or files; 3 the server refused "
         "or\n"
         "is not there. The server is at --address, or LOCKSTEP_ADDRESS, or 127.0.0.1:50551.\n";
}

}  // namespace

int Run(const std::vector<std::string>& arguments, const Surroundings& surroundings) {
  if (arguments.empty()) {
    PrintUsage(surroundings.err);
    return kExitUsage;
  }
  if (arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    PrintUsage(surroundings.out);
    return kExitOk;
  }
  for (const Subcommand& subcommand : kSubcommands) {
    if (arguments[0] != subcommand.name) continue;
    return subcommand.run(Arguments(arguments.begin() + 1, arguments.end()), surroundings);
  }
  surroundings.err << "lockstep: no subcommand \"" << arguments[0] << "\"\n\n";
  PrintUsage(surroundings.err);
  return kExitUsage;
}

}  // namespace lockstep::cli
