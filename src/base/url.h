// URLs as text: which ones are fetched, and what of them may be shown; and the one way of text to
// people.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

// Whether the text is a URL ("scheme://…") rather than a path, such as C://x.
bool is_url(std::string_view text);

// Whether the URL starts with "http://", which is not encrypted.
bool is_plain_http(std::string_view url);

// Why this URL is not fetched, as a clause; empty if it may be. It must start with https://, or
// with http:// and name this machine (localhost, 127.0.0.1, [::1]); and it must have a host but no
// user or password, since those would appear in every log.
std::string fault_of_url(std::string_view url);

// Whether the text is a URL in a bucket, of which a copy is used: s3://, gs:// or abfss://.
bool is_bucket(std::string_view text);

// Why the URL of a bucket is not read, as a clause; empty if it may be. It must have no password
// and no query, which would appear in every log, and name what a file can be named.
std::string fault_of_bucket(std::string_view url);

// Whether the name of an object is the relative path of a file: no part of it is empty, '.', '..'
// or longer than a file's name can be.
bool is_plain_path(std::string_view name);

// The line of the cloud's own tool that uploads a folder to the URL of a bucket, without what may
// be secret.
std::string upload_line(std::string_view url);

// `text` with every URL in it without user, password, query and fragment, which may be secret:
// "https://host/data.csv?…". Also of URLs in quotes or brackets, and with :// as %3A%2F%2F; where a
// URL cannot be taken apart, "https://…". Idempotent.
std::string without_secrets(std::string_view text);

// `text` as it leaves for people, and for services that show it to them: consoles, logs, messages
// of errors, pages, cards. without_secrets(), printable(), and with words of more than 1000 bytes
// cut. Idempotent. Not for data that programs read.
std::string for_people(std::string_view text);

// An http:// or https:// URL without user, query and fragment, which are no part of a file's name;
// other text as it is.
std::string plain_url(std::string_view text);

// `text` with what %20 and the like stand for.
std::string url_decoded(std::string_view text);

// The last component of the URL's path, with every character but letters, digits, '.', '_', '-' and
// '+' replaced by '_'. "file" if the path ends in a slash. Only the last 100 bytes are kept. Of a
// file of Hugging Face's, after the name of its repository: "resnet50.a1_in1k-model.safetensors".
std::string file_name_of_url(std::string_view url);

}  // namespace kiln
