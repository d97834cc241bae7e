// Goal: each source of settings is read strictly, overrides those before it, and is remembered.
// Method: tables of arguments, variables and files passed in, with the value or the whole message
// expected.
#include "server/settings.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/config_fields.h"

namespace lockstep {
namespace {

using Arguments = std::vector<std::string>;
using Environment = std::vector<std::pair<std::string, std::string>>;

// `file` is what "f.json" holds; no other file is there.
absl::StatusOr<Settings> Load(Arguments arguments, Environment environment = {},
                              std::string file = "{}") {
  return LoadSettings({
      .arguments = std::move(arguments),
      .environment = std::move(environment),
      .read_file = [file](const std::string& path) -> absl::StatusOr<std::string> {
        if (path != "f.json") return absl::NotFoundError(path + ": no such file");
        return file;
      },
  });
}

std::string ErrorOf(Arguments arguments, Environment environment = {}, std::string file = "{}") {
  const auto settings = Load(std::move(arguments), std::move(environment), std::move(file));
  EXPECT_NE(settings.status().code(), absl::StatusCode::kOk);
  return std::string(settings.status().message());
}

TEST(SettingsTest, DefaultsWithoutAnySource) {
  const auto settings = Load({});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->config.SerializeAsString(), DefaultServerConfig().SerializeAsString());
  EXPECT_EQ(settings->sources.size(), ConfigFields().size());
  for (const auto& [name, source] : settings->sources) EXPECT_EQ(source, "default") << name;
}

TEST(SettingsTest, LaterSourcesOverrideEarlierOnes) {
  const std::string file = R"({"stages": 2, "threads": 2, "kv_page_size": 32, "model": "m"})";
  const auto settings = Load({"--config=f.json", "--stages=4"},
                             {{"LOCKSTEP_STAGES", "3"}, {"LOCKSTEP_THREADS", "3"}}, file);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->config.stages(), 4);
  EXPECT_EQ(settings->config.threads(), 3);
  EXPECT_EQ(settings->config.kv_page_size(), 32);
  EXPECT_EQ(settings->config.model(), "m");
  EXPECT_EQ(settings->config.data_max(), 4096);
  EXPECT_EQ(settings->sources.at("stages"), "flag");
  EXPECT_EQ(settings->sources.at("threads"), "environment");
  EXPECT_EQ(settings->sources.at("kv_page_size"), "file");
  EXPECT_EQ(settings->sources.at("data_max"), "default");
}

TEST(SettingsTest, FormsOfAFlag) {
  for (const Arguments& arguments :
       {Arguments{"--kv_page_size=8"}, Arguments{"--kv_page_size", "8"},
        Arguments{"--kv-page-size=8"}, Arguments{"--kv-page-size", "8"}}) {
    const auto settings = Load(arguments);
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(settings->config.kv_page_size(), 8);
    EXPECT_EQ(settings->sources.at("kv_page_size"), "flag");
  }
  const auto equals_inside = Load({"--model=a=b"});
  ASSERT_TRUE(equals_inside.ok());
  EXPECT_EQ(equals_inside->config.model(), "a=b");
  const auto empty = Load({"--export_root="});
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->sources.at("export_root"), "flag");
}

TEST(SettingsTest, BooleanFlagsInEveryForm) {
  struct Case {
    Arguments arguments;
    bool value;
  };
  for (const Case& c :
       {Case{{"--insecure_remote"}, true}, Case{{"--insecure_remote", "--stages=2"}, true},
        Case{{"--insecure_remote=True"}, true}, Case{{"--insecure_remote", "TRUE"}, true},
        Case{{"--insecure_remote", "on"}, true}, Case{{"--insecure_remote=1"}, true},
        Case{{"--insecure_remote=False"}, false}, Case{{"--insecure_remote", "False"}, false},
        Case{{"--insecure_remote", "no"}, false}, Case{{"--insecure_remote", "0"}, false},
        Case{{"--insecure_remote=off"}, false}}) {
    SCOPED_TRACE(c.arguments.back());
    const auto settings = Load(c.arguments, {{"LOCKSTEP_INSECURE_REMOTE", c.value ? "no" : "yes"}});
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(settings->config.insecure_remote(), c.value);
  }
  const std::string wanted = "must be true, false, yes, no, on, off, 1 or 0, is ";
  EXPECT_EQ(ErrorOf({"--insecure_remote=maybe"}), "--insecure_remote: " + wanted + "\"maybe\"");
  EXPECT_EQ(ErrorOf({"--insecure_remote", "maybe"}), "--insecure_remote: " + wanted + "\"maybe\"");
  EXPECT_EQ(ErrorOf({"--insecure_remote="}), "--insecure_remote: " + wanted + "\"\"");
}

TEST(SettingsTest, RefusesFlagsThatCannotBeMeant) {
  EXPECT_EQ(ErrorOf({"--stage=2"}), "--stage: unknown flag; did you mean --stages?");
  EXPECT_EQ(ErrorOf({"--temperature=1"}), "--temperature: unknown flag");
  EXPECT_EQ(ErrorOf({"--no_insecure_remote"}),
            "--no_insecure_remote: unknown flag; did you mean --insecure_remote?");
  EXPECT_EQ(ErrorOf({"-stages=2"}),
            "\"-stages=2\": expected a flag, --name=value; see lockstep_server --help");
  EXPECT_EQ(ErrorOf({"serve"}),
            "\"serve\": expected a flag, --name=value; see lockstep_server --help");
  EXPECT_EQ(ErrorOf({"--"}), "\"--\": expected a flag, --name=value; see lockstep_server --help");
  EXPECT_EQ(ErrorOf({"--stages"}), "--stages: needs a value");
  EXPECT_EQ(ErrorOf({"--stages", "--threads=2"}), "--stages: needs a value");
  EXPECT_EQ(ErrorOf({"--stages=two"}), "--stages: must be an integer, is \"two\"");
  EXPECT_EQ(ErrorOf({"--stages=1", "--stages=2"}), "--stages: given twice");
  EXPECT_EQ(ErrorOf({"--kv-page-size=8", "--kv_page_size=8"}), "--kv_page_size: given twice");
}

TEST(SettingsTest, EnvironmentIsStrictAboutItsOwnNamesOnly) {
  EXPECT_EQ(ErrorOf({}, {{"LOCKSTEP_STAGSE", "2"}}),
            "environment LOCKSTEP_STAGSE: unknown setting; did you mean LOCKSTEP_STAGES?");
  EXPECT_EQ(ErrorOf({}, {{"LOCKSTEP_STAGES", "many"}}),
            "environment LOCKSTEP_STAGES: must be an integer, is \"many\"");
  EXPECT_EQ(ErrorOf({}, {{"LOCKSTEP_INSECURE_REMOTE", ""}}),
            "environment LOCKSTEP_INSECURE_REMOTE: must be true, false, yes, no, on, off, 1 or 0, "
            "is \"\"");
  const auto settings = Load({}, {{"HOME", "/home/x"},
                                  {"STAGES", "9"},
                                  {"LOCKSTEP_ADDRESS", "client's"},
                                  {"LOCKSTEP_PORT", "tcp://10.0.0.1:50551"},
                                  {"LOCKSTEP_PORT_50551_TCP_ADDR", "10.0.0.1"},
                                  {"LOCKSTEP_SERVICE_HOST", "10.0.0.1"},
                                  {"LOCKSTEP_PORT_FILE", "port"}});
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->config.port_file(), "port") << "ours, although it looks like the others";
  EXPECT_EQ(settings->config.stages(), 1);
}

TEST(SettingsTest, FileIsStrict) {
  const auto camel =
      Load({"--config", "f.json"}, {}, R"({"kvPageSize": 64, "insecureRemote": true})");
  ASSERT_TRUE(camel.ok()) << camel.status();
  EXPECT_EQ(camel->config.kv_page_size(), 64);
  EXPECT_TRUE(camel->config.insecure_remote());

  const auto by_variable = Load({}, {{"LOCKSTEP_CONFIG", "f.json"}}, R"({"stages": 1})");
  ASSERT_TRUE(by_variable.ok());
  EXPECT_EQ(by_variable->sources.at("stages"), "file") << "also when it equals the default";

  const auto error = [](const std::string& file) { return ErrorOf({"--config=f.json"}, {}, file); };
  EXPECT_EQ(error(R"({"stagse": 2})"),
            "config file f.json: field \"stagse\" is unknown; did you mean stages?");
  EXPECT_EQ(error(R"({"stages": null})"),
            "config file f.json: field \"stages\": must be of kind integer");
  EXPECT_EQ(error(R"({"stages": 1.5})"),
            "config file f.json: field \"stages\": must be an integer, is \"1.5\"");
  EXPECT_EQ(error(R"({"model": 3})"), "config file f.json: field \"model\": must be of kind text");
  for (const char* file :
       {"", "[]", "{", R"({"stages": "two"})", R"({"stages": 1e12})", R"({"stages": true})",
        R"({"insecure_remote": "maybe"})", R"({"insecure_remote": 2})", R"({"stages": [1]})"}) {
    EXPECT_TRUE(absl::StartsWith(error(file), "config file f.json: ")) << file;
  }
  for (const char* value : {"false", "0", "\"False\"", "\"no\""}) {
    const auto off = Load({"--config=f.json"}, {{"LOCKSTEP_STAGES", "1"}},
                          absl::StrCat("{\"insecure_remote\": ", value, "}"));
    ASSERT_TRUE(off.ok()) << off.status();
    EXPECT_FALSE(off->config.insecure_remote()) << value;
  }
  EXPECT_EQ(ErrorOf({"--config=g.json"}), "g.json: no such file");
}

}  // namespace
}  // namespace lockstep
