#include "base/url.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>

namespace kiln {
namespace {

TEST(Url, IsNoPath) {
  for (const char* url : {"https://host/x", "HTTP://host", "s3://bucket/x", "git+ssh://host"})
    EXPECT_TRUE(is_url(url)) << url;
  for (const char* path :
       {"", "weights.pth", "/a/b", "C:/x", "://x", "a b://x", "./https://x", "C://x"})
    EXPECT_FALSE(is_url(path)) << path;
}

TEST(Url, OnlyWhatIsSafeIsFetched) {
  for (const char* url :
       {"https://host/x.pth", "HTTPS://host", "https://host:8443/a/b.pth?c=d#e", "https://[::2]/x",
        "http://localhost/x", "http://LOCALHOST:80/x", "http://127.0.0.1:1/x", "http://[::1]:1/x"})
    EXPECT_EQ(fault_of_url(url), "") << url;
  for (const char* url :
       {"x.pth", "http://host/x", "http://localhost.host/x", "http://127.0.0.1.host/x",
        "http://[::1].host/x", "http://localhost@host/x", "https://user:word@host/x",
        "http://localhost\\@host/x", "https:///x", "https://:1/x", "https://?x", "ftp://host/x",
        "file:///x", "https://host/a b", "https://host/\nx", "https://h\xc3\xb6st/x",
        "http://2130706433/x"})
    EXPECT_NE(fault_of_url(url), "") << url;
  EXPECT_NE(fault_of_url("https://host/" + std::string(10'000, 'x')), "");
}

TEST(Url, LosesItsSecretsInAnyText) {
  for (const auto& [text, shown] : std::initializer_list<std::pair<std::string, std::string>>{
           {"https://host:1/a/b.pth", "https://host:1/a/b.pth"},
           {"https://host/a.pth?signature=1", "https://host/a.pth?…"},
           {"https://host/a.pth#signature=1", "https://host/a.pth?…"},
           {"https://user:word@host/a?b", "https://host/a?…"},
           {"https://token@host/a", "https://host/a"},
           {"https://host?word@there", "https://host?…"},
           {"HTTPS://host?b", "HTTPS://host?…"},
           {"abfss://c@host/a", "abfss://host/a"},
           {"s3://bucket/a?b", "s3://bucket/a?…"},
           {"https://u:w@[::1]:80/a?b", "https://[::1]:80/a?…"},
           {"https://h\u00f6st/a?b", "https://h\u00f6st/a?…"},
           {"'https://host/a?b' is no file", "'https://host/a?…' is no file"},
           {"'https://host/a?b c\nd' is no file", "'https://host/a?…' is no file"},
           {"'https://u:w'w@host/a' is no file", "'https://host/a' is no file"},
           {"'https://u:w'\\''w@host/a?b'\\''c'", "'https://…'"},
           {"is it (https://host/a?b)?", "is it (https://host/a?…)?"},
           {"see https://host/a?b. Then", "see https://host/a?…. Then"},
           {"see https://host/a?", "see https://host/a?"},
           {"a,https://host/a,https://u:w@there/b?c", "a,https://host/a,https://there/b?…"},
           {"\"https://host/a?b\", \"https://u:w@host\"", "\"https://host/a?…\", \"https://host\""},
           {"--weights=https://host/a?b --c", "--weights=https://host/a?… --c"},
           {R"({"a":"https:\/\/u:w@host\/a?b"})", R"({"a":"https:\/\/host\/a?…"})"},
           {"https%3A%2F%2Fu%3Aw%40host", "https%3A%2F%2F…"},
           {"https://host/a%3fb", "https://host/a?…"},
           {"https://u:p/w@host/a", "https://…"},
           {"https://u%3Aw%40host/a", "https://…"},
           {"https://u:w", "https://…"},
           {"https://https://u:w@host/a", "https://https://host/a"},
           {"https://host/a@1.pth", "https://host/a@1.pth"},
           {"photos?#@", "photos?#@"},
           {"C:\\photos\\a?b and C://u:w@a?b", "C:\\photos\\a?b and C://u:w@a?b"},
           {"/usr/bin:/bin?", "/usr/bin:/bin?"},
           {"--columns=path=a?b", "--columns=path=a?b"},
           {"https://host/a?b c\nd", "https://host/a?…"},
           {"://", "://"},
           {"", ""}}) {
    EXPECT_EQ(without_secrets(text), shown);
    EXPECT_EQ(without_secrets(shown), shown) << "again";
  }
  const std::string harmless = "https://host/" + std::string(3000, 'x') + "@1.pth";
  EXPECT_EQ(without_secrets(harmless), harmless) << "as long as it is";
  std::string many;
  for (int i = 0; i < 50'000; ++i) many += "ab://";
  EXPECT_EQ(without_secrets(many), many);
}

TEST(Url, OfAFileHasNeitherUserNorQuery) {
  EXPECT_EQ(plain_url("https://u:w@host/a b.png?c#d"), "https://host/a b.png");
  EXPECT_EQ(plain_url("s3://bucket/a#1.png"), "s3://bucket/a#1.png");
  EXPECT_EQ(plain_url("a#1.png"), "a#1.png");
}

TEST(Url, OfABucketNamesIt) {
  for (const char* url : {"s3://b", "s3://b/", "s3://b/a b/%20/x.png", "gs://b/x", "S3://b/x",
                          "abfss://c@a.dfs.core.windows.net/x"}) {
    EXPECT_TRUE(is_bucket(url));
    EXPECT_EQ(fault_of_bucket(url), "") << url;
  }
  for (const char* url :
       {"s3://", "s3://u:geheim@b/x", "s3://u@b", "s3://b/x?a=geheim", "s3://b/x#y", "s3://b/a//x",
        "s3://b/./x", "s3://b/a/..", "abfss://a.dfs.core.windows.net",
        "abfss://c:geheim@a.dfs.core.windows.net/x"}) {
    EXPECT_TRUE(is_bucket(url));
    EXPECT_NE(fault_of_bucket(url), "") << url;
    EXPECT_EQ(without_secrets(url).find("geheim"), std::string::npos);
  }
  for (const char* text : {"s3:/b/x", "b/x", "https://b/x", "hdfs://b/x"})
    EXPECT_FALSE(is_bucket(text)) << text;
  EXPECT_EQ(upload_line("gs://b/my x"), "gcloud storage cp --recursive FOLDER 'gs://b/my x'");
}

TEST(Url, NamesAFile) {
  EXPECT_EQ(file_name_of_url("https://host/a/resnet50-0676ba61.pth?x=/y"), "resnet50-0676ba61.pth");
  EXPECT_EQ(file_name_of_url("https://host/a%2fb:c.pth"), "a_2fb_c.pth");
  EXPECT_EQ(file_name_of_url("https://host/timm/tf_a.in1k/resolve/main/model.safetensors"),
            "tf_a.in1k-model.safetensors");
  for (const char* url : {"https://host", "https://host/", "https://host/a/"})
    EXPECT_EQ(file_name_of_url(url), "file");
  const std::string name = file_name_of_url("https://host/" + std::string(300, 'x') + ".pth");
  EXPECT_EQ(name.size(), 100U);
  EXPECT_TRUE(name.ends_with("x.pth"));
}

}  // namespace
}  // namespace kiln
