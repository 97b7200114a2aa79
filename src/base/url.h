// URLs as text: which ones are fetched, and what of them may be shown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// Whether the text is a URL ("scheme://…") rather than a path.
bool is_url(std::string_view text);

// Whether the URL starts with "http://", which is not encrypted.
bool is_plain_http(std::string_view url);

// Why this URL is not fetched, as a clause; empty if it may be. It must start with https://, or
// with http:// and name this machine (localhost, 127.0.0.1, [::1]); and it must have a host but no
// user or password, since those would appear in every log.
std::string fault_of_url(std::string_view url);

// For messages: the URL without its query and fragment, which may be a signature, and without user
// and password.
std::string shown_url(std::string_view url);

// For records: the text of an option, or a word of a command line such as --weights=URL; if it is a
// URL, or ends in one, without what shown_url() leaves out.
std::string without_secrets(const std::string& text);
// Of each word.
std::vector<std::string> without_secrets(std::vector<std::string> words);

// The last component of the URL's path, with every character but letters, digits, '.', '_', '-' and
// '+' replaced by '_'. "file" if the path ends in a slash. Only the last 100 bytes are kept. Of a
// file of Hugging Face's, after the name of its repository: "resnet50.a1_in1k-model.safetensors".
std::string file_name_of_url(std::string_view url);

}  // namespace kiln
