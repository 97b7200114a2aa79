// Scored images in folders by their answers: copies of their bytes, or links to their files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/dataset/dataset.h"
#include "predict/job.h"

namespace kiln {

// DIR/<class>/<file name>, and DIR/unsure/<file name> without an answer. Nothing is moved or
// replaced, and what is there under its name stays whole: another file of that name gets a number
// (a-2.jpg), the same one is left as it is. So a job that is repeated adds nothing, and several may
// sort into one folder. One thread. Throws Error kFailedToWriteOutputs.
class SortedFolders {
 public:
  // `classes`: of the model, by class id. The log must outlive the object. Throws Error kUserError
  // for links to `images` that are not files of their own.
  SortedFolders(std::filesystem::path folder, bool are_links, const Dataset& images,
                const std::vector<std::string>& classes, Log& log);

  // An image of `set`. Bad images are left out, and those that are no longer what was scored.
  void add(const Dataset& set, const AnsweredImage& image);
  void log_result() const;

 private:
  // The images of one name in one folder, from the second on: what is known to be there, and the
  // number to look at next.
  struct Namesakes {
    std::set<std::uint64_t> prints;
    int next = 2;
  };

  const std::filesystem::path folder_;
  const bool are_links_;
  const std::vector<std::string> names_;  // by class id
  Log& log_;
  std::map<std::filesystem::path, Namesakes> namesakes_;  // by the place of the first one
  long long num_new_ = 0, num_there_ = 0, num_left_out_ = 0;
};

}  // namespace kiln
