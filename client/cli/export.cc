// lockstep export.
#include <ostream>

#include "client/cli/command.h"

namespace lockstep::cli {

int RunExport(const Arguments& arguments, const Surroundings& surroundings) {
  Command command("export", "write the weights as a Hugging Face directory on the server.",
                  surroundings);
  v1::ExportModelRequest request;
  command.flags().AddRequired("directory", "relative, below the server's --export_root; required",
                              request.mutable_directory());
  if (const int code = command.Parse(arguments); code >= 0) return code;
  const std::unique_ptr<Client> client = command.Connect();
  if (client == nullptr) return kExitRpc;
  const absl::StatusOr<v1::ExportModelResponse> response = client->ExportModel(request);
  if (!response.ok()) return command.FailRpc(response.status());
  if (command.json()) {
    surroundings.out << ToJsonLine(*response) << "\n";
  } else {
    surroundings.out << "wrote " << response->bytes() << " bytes to " << response->path()
                     << ", weight version " << response->weights().weight_version() << "\n";
  }
  return kExitOk;
}

}  // namespace lockstep::cli
