#include "base/url.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>

#include "base/files.h"
#include "base/text.h"

namespace kiln {
namespace {

constexpr std::string_view kSeparator = "://", kEncodedSeparator = "%3a%2f%2f";
constexpr std::string_view kSchemeSigns =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-.";
constexpr std::size_t kNumLetters = 52;  // of these, the first ones
constexpr std::size_t kMaxFileNameBytes = 100, kMaxUrlBytes = 8000;

struct Parts {
  std::string scheme;     // in lowercase
  std::string authority;  // host and port, possibly preceded by a user
  std::string path;       // with its leading slash, without query and fragment
};

// Requires is_url(url).
Parts parts_of(std::string_view url) {
  const std::size_t scheme_end = url.find(kSeparator);
  std::string_view rest = url.substr(scheme_end + kSeparator.size());
  rest = rest.substr(0, rest.find_first_of("?#"));
  const std::size_t host_end = std::min(rest.find('/'), rest.size());
  return {in_small_letters(url.substr(0, scheme_end)), std::string(rest.substr(0, host_end)),
          std::string(rest.substr(host_end))};
}

std::string host_of(const std::string& authority) {
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find("]:");
    return end == authority.npos ? authority : authority.substr(0, end + 1);
  }
  return in_small_letters(authority.substr(0, authority.find(':')));
}

// Whether it may hold a password: a port that is none, or what is encoded.
bool is_odd_host(std::string_view host) {
  const std::size_t bracket = host.find(']');  // after an IPv6 address
  const std::size_t port =
      std::min(host.find(':', bracket == host.npos ? 0 : bracket), host.size());
  return host.find('%') != host.npos ||
         host.find_first_not_of(":0123456789", port) != std::string_view::npos;
}

// The end of the URL whose scheme begins in a text: the quote of the same kind as before it;
// otherwise a blank, without the marks of the sentence before that; of the value of an option,
// which begins with it, the end. Rather too far than too early.
std::size_t end_of_url(std::string_view text, std::size_t begin, std::size_t host) {
  const char before = begin == 0 ? ' ' : text[begin - 1];
  for (std::size_t at = host; std::string_view("'\"`").find(before) != text.npos; ++at) {
    at = text.find(before, at);
    if (at == text.npos) break;
    const char after = at + 1 < text.size() ? text[at + 1] : ' ';  // else it is within a word
    if (after != before && std::string_view(" \t\r\n.,;:!)]}>'\"`").find(after) != text.npos)
      return at;
  }
  const std::size_t end =
      begin == 0 ? text.size() : std::min(text.find_first_of(" \t\r\n", host), text.size());
  return host + text.substr(host, end - host).find_last_not_of(".,;:!?'\"`)]}>") + 1;
}

// The clouds whose buckets are read, and how their tools upload a folder.
struct Cloud {
  std::string_view name, upload;
};
constexpr std::array<Cloud, 3> kClouds = {
    {{"s3", "aws s3 cp --recursive FOLDER "},
     {"gs", "gcloud storage cp --recursive FOLDER "},
     {"abfss",
      "azcopy copy --recursive FOLDER https://ACCOUNT.blob.core.windows.net/CONTAINER/PATH"}}};

}  // namespace

bool is_url(std::string_view text) {
  const std::size_t end = text.find_first_not_of(kSchemeSigns);
  return end != text.npos && end > 1 && kSchemeSigns.find(text.front()) < kNumLetters &&
         text.substr(end).starts_with(kSeparator);
}

bool is_plain_http(std::string_view url) {
  return is_url(url) && parts_of(url).scheme == "http";
}

std::string fault_of_url(std::string_view url) {
  if (!is_url(url)) return "it is not a URL";
  if (url.size() > kMaxUrlBytes)
    return "it is longer than " + std::to_string(kMaxUrlBytes) + " bytes";
  // Programs interpret them differently, or they would end a line of an HTTP request.
  if (std::ranges::any_of(url, [](char c) { return c <= ' ' || c >= 0x7f || c == '\\'; }))
    return "it contains a space, a backslash or another character that must be escaped as %XX";
  const Parts parts = parts_of(url);
  if (parts.scheme != "https" && parts.scheme != "http")
    return "only https:// is supported: copy the file to a folder first, and give its path";
  if (parts.authority.find('@') != parts.authority.npos)
    return "it contains a user or password, which would appear in logs: download the file "
           "yourself, and give its path";
  const std::string host = host_of(parts.authority);
  if (host.empty()) return "it has no host";
  if (parts.scheme == "http" && host != "localhost" && host != "127.0.0.1" && host != "[::1]")
    return "http:// is not encrypted, so the file could be replaced in transit: use https://, or "
           "download the file yourself, and give its path";
  return "";
}

bool is_bucket(std::string_view text) {
  return is_url(text) && find_row(kClouds, parts_of(text).scheme) != nullptr;
}

bool is_plain_path(std::string_view name) {
  const std::filesystem::path parts(name);
  return fault_of_relative_path(name).empty() && parts.lexically_normal().native() == name &&
         std::ranges::all_of(parts, [](const auto& part) { return part.native().size() <= 255; });
}

std::string fault_of_bucket(std::string_view url) {
  const Parts parts = parts_of(url);
  const bool is_azure = parts.scheme == "abfss";
  const std::size_t user_end = parts.authority.find('@');
  const std::string_view path = trimmed(parts.path, "/");
  if (parts.authority.empty() || is_azure == (user_end == url.npos) ||
      (is_azure && parts.authority.find(':') < user_end) || url.find_first_of("?#") != url.npos ||
      (!path.empty() && !is_plain_path(path)))
    return "give s3://BUCKET/PATH, gs://BUCKET/PATH or "
           "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH, without a password or a query: "
           "credentials are found as the cloud's own tools find them";
  return "";
}

std::string upload_line(std::string_view url) {
  const std::string line(find_row(kClouds, parts_of(url).scheme)->upload);
  return line.ends_with(' ') ? line + shell_word(without_secrets(url)) : line;
}

std::string without_secrets(std::string_view text) {
  std::string shown;
  std::size_t done = 0, end = 0;  // of what is in `shown`, and of the URL
  const auto leave_out = [&](std::size_t from, std::size_t to, std::string_view instead) {
    shown.append(text.substr(done, from - done)).append(instead);
    done = to;
  };
  for (std::size_t at = 0; (at = text.find_first_of(":?#%", std::max(at, done))) != text.npos;
       ++at) {
    const std::string mark = in_small_letters(text.substr(at, kEncodedSeparator.size()));
    const bool is_encoded = mark == kEncodedSeparator;
    const std::size_t begin = text.substr(0, at).find_last_not_of(kSchemeSigns) + 1;
    const std::size_t host =  // in JSON, slashes may be escaped
        is_encoded ? at + mark.size()
                   : std::min(text.find_first_not_of("/\\", at + 1), text.size());
    if (at < end &&
        (mark[0] == '?' || mark[0] == '#' || mark.starts_with("%3f") || mark.starts_with("%23"))) {
      leave_out(at, end, "?…");
    } else if ((is_encoded || (mark[0] == ':' && host - at > 2)) && at - begin != 1) {
      if (at >= end) end = end_of_url(text, begin, host);
      const std::string_view authority =
          text.substr(host, std::min(text.find_first_of("/\\?#", host), end) - host);
      const std::size_t user_size = authority.rfind('@') + 1;
      if (is_encoded || is_odd_host(authority.substr(user_size)))
        leave_out(host, end, "…");
      else if (user_size > 0)
        leave_out(host, host + user_size, "");
    }
  }
  return shown.append(text.substr(done));
}

std::string for_people(std::string_view text) {
  constexpr std::size_t kMost = 1000;
  std::string shown;
  const std::string whole = printable(without_secrets(text));
  for (std::string_view rest = whole; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' ', 1));
    shown += word.size() <= kMost + 1 ? std::string(word) : cut_to_bytes(word, kMost) + "…";
    rest.remove_prefix(word.size());
  }
  return shown;
}

std::string plain_url(std::string_view text) {
  const Parts parts = is_url(text) ? parts_of(text) : Parts();
  if (parts.scheme != "https" && parts.scheme != "http") return std::string(text);
  return parts.scheme + "://" + parts.authority.substr(parts.authority.rfind('@') + 1) + parts.path;
}

std::string url_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = text[i] == '%' && i + 2 < text.size()
                          ? number_in<unsigned char>(text.substr(i + 1, 2), 16)
                          : std::nullopt;
    decoded += byte ? static_cast<char>(*byte) : text[i];
    if (byte) i += 2;
  }
  return decoded;
}

std::string file_name_of_url(std::string_view url) {
  const std::string path = is_url(url) ? parts_of(url).path : "";
  std::string name = path.substr(path.rfind('/') + 1);
  // Hugging Face's files are alike: …/REPOSITORY/resolve/REVISION/model.safetensors.
  if (const std::size_t end = path.find("/resolve/"); end != path.npos)
    name = path.substr(0, end).substr(path.substr(0, end).rfind('/') + 1) + "-" + name;
  for (char& byte : name)
    if (kSchemeSigns.find(byte) == kSchemeSigns.npos) byte = '_';
  if (name.size() > kMaxFileNameBytes) name.erase(0, name.size() - kMaxFileNameBytes);
  return name.empty() ? "file" : name;
}

}  // namespace kiln
