// Paths as they are typed, and whether one is in the way of another.
#pragma once

#include <map>
#include <string>

namespace kiln {

// The URL of a bucket -> the path of its copy, which takes its place.
using BucketFolders = std::map<std::string, std::string>;

// Whether there is such a path; also if it cannot be said.
bool may_be_there(const std::string& path);

// A path as a user typed it: where it begins with ~/, in the home folder. Throws
// std::invalid_argument, with a clause, for what else a shell would have replaced there, ~NAME and
// $NAME, and for a URL; unless there is such a path.
std::string local_path(const std::string& text, bool may_be_url = false);

// Whether a path is inside a folder or is that folder. The paths need not exist; an empty path is
// inside nothing.
bool lies_inside(const std::string& inner, const std::string& outer);

// A sentence if the output is inside, contains or is the input; otherwise empty.
std::string overlap_of(const char* output_name, const std::string& output, const char* input_name,
                       const std::string& input);

}  // namespace kiln
