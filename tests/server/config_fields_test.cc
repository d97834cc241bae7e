// Goal: every textual value of a setting is honoured or refused, above all every spelling of a
// boolean ("--flag False" read as true is a fault met in the field), and every field has a textual
// form. Method: tables, and a round trip over all fields of the message.
#include "server/config_fields.h"

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(ConfigFieldsTest, EverySpellingOfABoolean) {
  for (const char* text : {"true", "True", "TRUE", "tRuE", "yes", "Yes", "YES", "on", "On", "1"}) {
    const absl::StatusOr<bool> value = ParseBoolean(text);
    ASSERT_TRUE(value.ok()) << text;
    EXPECT_TRUE(*value) << text;
  }
  for (const char* text : {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "0"}) {
    const absl::StatusOr<bool> value = ParseBoolean(text);
    ASSERT_TRUE(value.ok()) << text;
    EXPECT_FALSE(*value) << text;
  }
  for (const char* text : {"", " true", "true ", "2", "-1", "t", "f", "y", "n", "none", "null",
                           "01", "truefalse", "enable"}) {
    EXPECT_EQ(ParseBoolean(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(ParseBoolean("maybe").status().message(),
            "must be true, false, yes, no, on, off, 1 or 0, is \"maybe\"");
}

TEST(ConfigFieldsTest, Integers) {
  const google::protobuf::FieldDescriptor* stages = FindConfigField("stages");
  ASSERT_NE(stages, nullptr);
  v1::ServerConfig config;
  EXPECT_TRUE(SetConfigField(*stages, "12", config).ok());
  EXPECT_EQ(config.stages(), 12);
  EXPECT_TRUE(SetConfigField(*stages, "-1", config).ok()) << "ranges are checked later";
  for (const char* text : {"", "1.5", "0x10", "two", "12k", "99999999999", "True"}) {
    EXPECT_FALSE(SetConfigField(*stages, text, config).ok()) << text;
  }
  EXPECT_EQ(SetConfigField(*stages, "two", config).message(), "must be an integer, is \"two\"");
  EXPECT_EQ(config.stages(), -1) << "a refused value changes nothing";
}

TEST(ConfigFieldsTest, EveryFieldHasATextualForm) {
  for (const google::protobuf::FieldDescriptor* field : ConfigFields()) {
    SCOPED_TRACE(field->name());
    EXPECT_EQ(FindConfigField(field->name()), field);
    const std::string kind = ConfigFieldKind(*field);
    const std::string text = kind == "boolean" ? "true" : kind == "integer" ? "7" : "some text";
    v1::ServerConfig config;
    ASSERT_TRUE(SetConfigField(*field, text, config).ok());
    EXPECT_EQ(ConfigFieldText(*field, config), text);
  }
  EXPECT_EQ(FindConfigField("stagse"), nullptr);
  EXPECT_EQ(EnvironmentName(*FindConfigField("kv_page_size")), "LOCKSTEP_KV_PAGE_SIZE");
}

}  // namespace
}  // namespace lockstep
