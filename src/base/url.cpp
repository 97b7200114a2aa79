#include "base/url.h"

#include <algorithm>
#include <cstddef>

#include "base/text.h"

namespace kiln {
namespace {

constexpr std::string_view kSeparator = "://";
constexpr std::size_t kMaxNameBytes = 100, kMaxUrlBytes = 8000;

bool is_letter(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

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

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

// True if `url` has bytes that programs interpret differently, or that would end a line of an HTTP
// request.
bool has_odd_bytes(std::string_view url) {
  return std::any_of(url.begin(), url.end(),
                     [](char byte) { return byte <= ' ' || byte >= 0x7f || byte == '\\'; });
}

}  // namespace

bool is_url(std::string_view text) {
  const std::size_t end = text.find(kSeparator);
  if (end == text.npos || end == 0 || !is_letter(text.front())) return false;
  return std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), [](char byte) {
    return is_letter(byte) || is_digit(byte) || byte == '+' || byte == '-' || byte == '.';
  });
}

bool is_plain_http(std::string_view url) {
  return is_url(url) && parts_of(url).scheme == "http";
}

std::string fault_of_url(std::string_view url) {
  if (!is_url(url)) return "it is not a URL";
  if (url.size() > kMaxUrlBytes)
    return "it is longer than " + std::to_string(kMaxUrlBytes) + " bytes";
  if (has_odd_bytes(url))
    return "it contains a space, a backslash or another character that must be escaped as %XX";
  const Parts parts = parts_of(url);
  if (parts.scheme != "https" && parts.scheme != "http")
    return "only https:// is supported: copy the file to a folder first, and give its path";
  if (parts.authority.find('@') != parts.authority.npos)
    return "it contains a user or password, which would appear in logs: download the file "
           "yourself, and give its path";
  const std::string host = host_of(parts.authority);
  if (host.empty()) return "it has no host";
  if (parts.scheme == "http" && !is_this_machine(host))
    return "http:// is not encrypted, so the file could be replaced in transit: use https://, or "
           "download the file yourself, and give its path";
  return "";
}

std::string shown_url(std::string_view url) {
  if (!is_url(url)) return excerpt(std::string(url));
  const Parts parts = parts_of(url);
  const std::string host = parts.authority.substr(parts.authority.rfind('@') + 1);
  const bool is_cut = url.find_first_of("?#") != url.npos;
  return excerpt(parts.scheme + "://" + host + parts.path + (is_cut ? "?…" : ""));
}

std::string without_secrets(const std::string& text) {
  const std::size_t value = text.starts_with("--") ? text.find('=') : text.npos;
  if (value != text.npos)
    return text.substr(0, value + 1) + without_secrets(text.substr(value + 1));
  if (!is_url(text)) return text;
  const bool has_user = parts_of(text).authority.find('@') != std::string::npos;
  return has_user || text.find_first_of("?#") != text.npos ? shown_url(text) : text;
}

std::vector<std::string> without_secrets(std::vector<std::string> words) {
  for (std::string& word : words) word = without_secrets(word);
  return words;
}

std::string file_name_of_url(std::string_view url) {
  const std::string path = is_url(url) ? parts_of(url).path : "";
  std::string name = path.substr(path.rfind('/') + 1);
  // Hugging Face's files are alike: …/REPOSITORY/resolve/REVISION/model.safetensors.
  if (const std::size_t end = path.find("/resolve/"); end != path.npos)
    name = path.substr(0, end).substr(path.substr(0, end).rfind('/') + 1) + "-" + name;
  for (char& byte : name) {
    const bool is_plain = is_letter(byte) || is_digit(byte) || byte == '.' || byte == '_' ||
                          byte == '-' || byte == '+';
    if (!is_plain) byte = '_';
  }
  if (name.size() > kMaxNameBytes) name.erase(0, name.size() - kMaxNameBytes);
  return name.empty() ? "file" : name;
}

}  // namespace kiln
