// Which URLs this program may ask for a file, and how messages show them: by their text alone.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

// Whether the text means a URL ("scheme://…") and no path.
bool is_url(std::string_view text);

// Whether it begins with "http://", which is not encrypted.
bool is_plain_http(std::string_view url);

// Why nothing is fetched from this URL: a clause; empty if it may be. Those that may be begin with
// https://, or with http:// and name this machine (localhost, 127.0.0.1, [::1]); they have a host,
// and neither user nor password, which would stand in every log.
std::string fault_of_url(std::string_view url);

// For messages: without query and fragment, which may be a signature, and without user and
// password.
std::string shown_url(std::string_view url);

// For records: the text of an option, which may be a URL, then without what shown_url() leaves out.
std::string without_secrets(const std::string& text);

// The last part of the URL's path, in letters, digits, '.', '_', '-' and '+'; others become '_'.
// "file" where the path ends in a slash. At most 100 bytes, the last ones.
std::string file_name_of_url(std::string_view url);

}  // namespace kiln
