#include "base/url.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Url, IsNoPath) {
  for (const char* url : {"https://host/x", "HTTP://host", "s3://bucket/x", "git+ssh://host"})
    EXPECT_TRUE(is_url(url)) << url;
  for (const char* path : {"", "weights.pth", "/a/b", "C:/x", "://x", "a b://x", "./https://x"})
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

TEST(Url, IsShownWithoutSecrets) {
  EXPECT_EQ(shown_url("https://host:1/a/b.pth"), "https://host:1/a/b.pth");
  EXPECT_EQ(shown_url("https://user:word@host/a?signature=1"), "https://host/a?…");
  EXPECT_EQ(shown_url("https://host?word@there"), "https://host?…");
  EXPECT_EQ(shown_url("x.pth"), "x.pth");
}

TEST(Url, IsRecordedWithoutSecrets) {
  const std::string harmless = "https://host/" + std::string(300, 'x') + "@1.pth";
  EXPECT_EQ(without_secrets(harmless), harmless) << "as long as it is";
  EXPECT_EQ(without_secrets("https://host/a.pth?signature=1"), "https://host/a.pth?…");
  EXPECT_EQ(without_secrets("https://user:word@host/a.pth"), "https://host/a.pth");
  EXPECT_EQ(without_secrets("photos?#@"), "photos?#@");
  EXPECT_EQ(without_secrets("--weights=https://host/a.pth?signature=1"),
            "--weights=https://host/a.pth?…");
  EXPECT_EQ(without_secrets("--columns=path=a?b"), "--columns=path=a?b");
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
