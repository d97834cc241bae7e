// Goal: the subcommands are told apart and init-model is as strict as the server; the help text
// covers every setting and its "Default ..." sentences tell the truth.
#include "server/command_line.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/config_fields.h"
#include "server/settings.h"

namespace lockstep {
namespace {

using Command = CommandLine::Command;

TEST(CommandLineTest, TellsCommandsApart) {
  EXPECT_EQ(ParseCommandLine({"--help"})->command, Command::kHelp);
  EXPECT_EQ(ParseCommandLine({"init-model", "-h"})->command, Command::kHelp);
  EXPECT_EQ(ParseCommandLine({"--version"})->command, Command::kVersion);
  const auto serve = ParseCommandLine({"--model=m", "--stages", "2"});
  EXPECT_EQ(serve->command, Command::kServe);
  EXPECT_EQ(serve->flags, (std::vector<std::string>{"--model=m", "--stages", "2"}));
}

TEST(CommandLineTest, InitModel) {
  const auto plain = ParseCommandLine({"init-model", "dir"});
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->command, Command::kInitModel);
  EXPECT_EQ(plain->init_directory, "dir");
  EXPECT_EQ(plain->init_seed, 0u);
  EXPECT_EQ(ParseCommandLine({"init-model", "dir", "--seed=7"})->init_seed, 7u);
  EXPECT_EQ(ParseCommandLine({"init-model", "--seed", "8", "dir"})->init_seed, 8u);
  EXPECT_EQ(ParseCommandLine({"init-model", "dir", "--seed=18446744073709551615"})->init_seed,
            ~uint64_t{0});

  const std::string usage = "usage: lockstep_server init-model DIR [--seed=N]";
  const auto error = [](std::vector<std::string> arguments) {
    return std::string(ParseCommandLine(arguments).status().message());
  };
  EXPECT_EQ(error({"init-model"}), "no directory given; " + usage);
  EXPECT_EQ(error({"init-model", "a", "b"}), "\"b\": one directory is enough; " + usage);
  EXPECT_EQ(error({"init-model", "a", "--seeds=1"}), "--seeds=1: unknown flag; " + usage);
  EXPECT_EQ(error({"init-model", "a", "--seed=-1"}), "--seed: must be an integer >= 0, is \"-1\"");
  EXPECT_EQ(error({"init-model", "a", "--seed="}), "--seed: must be an integer >= 0, is \"\"");
}

TEST(CommandLineTest, HelpCoversEverySettingAndItsDefault) {
  const std::string help = HelpText();
  const v1::ServerConfig defaults = DefaultServerConfig();
  for (const google::protobuf::FieldDescriptor* field : ConfigFields()) {
    SCOPED_TRACE(field->name());
    const size_t begin = help.find(absl::StrCat("\n  --", field->name(), "  ("));
    ASSERT_NE(begin, std::string::npos);
    const std::string paragraph = help.substr(begin, help.find("\n\n", begin) - begin);
    EXPECT_GE(std::count(paragraph.begin(), paragraph.end(), '\n'), 2) << "no comment";

    // Comments say "Default VALUE." or "Default VALUE: meaning", or nothing where empty is meant.
    const std::string value = ConfigFieldText(*field, defaults);
    if (value.empty()) continue;
    EXPECT_TRUE(absl::StrContains(paragraph, absl::StrCat("Default ", value))) << paragraph;
  }
}

}  // namespace
}  // namespace lockstep
