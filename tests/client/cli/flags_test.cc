// Goal: every flag is read as written or refused by name and value. Method: tables.
#include "client/cli/flags.h"

#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

struct Values {
  std::string text = "default";
  bool flag = false;
  absl::optional<int32_t> integer;
  uint64_t big = 0;
  float number = 0;
  std::vector<int32_t> tokens;

  absl::Status Parse(const std::vector<std::string>& arguments) {
    FlagSet flags;
    flags.Add("text", "help of text", &text);
    flags.Add("flag", "help of flag", &flag);
    flags.Add("some-integer", "help of integer", &integer);
    flags.Add("big", "help of big", &big);
    flags.Add("number", "help of number", &number);
    flags.AddRequired("tokens", "help of tokens", &tokens);
    return flags.Parse(arguments);
  }
};

TEST(FlagsTest, ReadsEveryKindInBothForms) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--text=a=b", "--flag", "--some-integer=-3",
                                 "--big=18446744073709551615", "--number=2.5e-1", "--tokens=1,2,3"},
        std::vector<std::string>{"--tokens", "1,2,3", "--number", "0.25", "--big",
                                 "18446744073709551615", "--some_integer", "-3", "--flag", "True",
                                 "--text", "a=b"}}) {
    Values values;
    const absl::Status status = values.Parse(arguments);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(values.text, "a=b");
    EXPECT_TRUE(values.flag);
    EXPECT_EQ(values.integer, -3);
    EXPECT_EQ(values.big, ~uint64_t{0});
    EXPECT_EQ(values.number, 0.25f);
    EXPECT_EQ(values.tokens, (std::vector<int32_t>{1, 2, 3}));
  }
}

TEST(FlagsTest, BooleansInEverySpelling) {
  for (const char* text : {"true", "TRUE", "True", "yes", "On", "1"}) {
    Values values;
    ASSERT_TRUE(values.Parse({"--tokens=1", "--flag", text}).ok()) << text;
    EXPECT_TRUE(values.flag) << text;
  }
  for (const char* text : {"false", "FALSE", "False", "no", "Off", "0"}) {
    Values values;
    values.flag = true;
    ASSERT_TRUE(values.Parse({"--tokens=1", "--flag", text}).ok()) << text;
    EXPECT_FALSE(values.flag) << text;
  }
  Values values;
  EXPECT_EQ(values.Parse({"--tokens=1", "--flag", "maybe"}).message(),
            "--flag: must be true, false, yes, no, on, off, 1 or 0, is \"maybe\"");
}

TEST(FlagsTest, RefusesTheRest) {
  const auto error = [](const std::vector<std::string>& arguments) {
    return std::string(Values().Parse(arguments).message());
  };
  EXPECT_EQ(error({}), "--tokens: required");
  EXPECT_EQ(error({"--token=1"}), "--token: unknown");
  EXPECT_EQ(error({"--no-flag"}), "--no-flag: unknown");
  EXPECT_EQ(error({"file"}), "\"file\": expected a flag, --name=value");
  EXPECT_EQ(error({"-h"}), "\"-h\": expected a flag, --name=value");
  EXPECT_EQ(error({"--"}), "\"--\": expected a flag, --name=value");
  EXPECT_EQ(error({"--text"}), "--text: needs a value");
  EXPECT_EQ(error({"--text", "--flag"}), "--text: needs a value");
  EXPECT_EQ(error({"--big=1", "--big=1"}), "--big: given twice");
  EXPECT_EQ(error({"--big=-1"}), "--big: must be an integer >= 0, is \"-1\"");
  EXPECT_EQ(error({"--some-integer=1.5"}), "--some-integer: must be an integer, is \"1.5\"");
  EXPECT_EQ(error({"--some-integer=3000000000"}),
            "--some-integer: must be an integer, is \"3000000000\"");
  EXPECT_EQ(error({"--number=1,5"}), "--number: must be a number, is \"1,5\"");
  EXPECT_EQ(error({"--tokens=1,,2"}),
            "--tokens: must be integers with commas between, is \"1,,2\"");
  EXPECT_EQ(error({"--tokens="}), "--tokens: must be integers with commas between, is \"\"");
}

TEST(FlagsTest, HelpNamesEveryFlag) {
  std::string text;
  FlagSet flags;
  flags.Add("one", "first", &text);
  flags.Add("two", "second", &text);
  EXPECT_EQ(flags.Help(), "  --one                  first\n  --two                  second\n");
}

}  // namespace
}  // namespace lockstep::cli
