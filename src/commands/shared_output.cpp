#include "commands/shared_output.h"

#include <optional>
#include <random>
#include <string>
#include <utility>

#include "base/files.h"
#include "base/text.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// A marker file, removed by the destructor. Its name begins with a dot, so one that a killed run
// leaves behind does no harm.
class Mark {
 public:
  explicit Mark(fs::path path) : path_(std::move(path)) { write_file_durably(path_, ""); }
  ~Mark() {
    std::error_code fault;
    fs::remove(path_, fault);
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

 private:
  fs::path path_;
};

}  // namespace

std::vector<int> folder_leaders(World& world, const fs::path& folder) {
  if (world.size() == 1) return {0};
  std::random_device draw;
  const std::string job = hex_digits(world.broadcast(std::uint64_t{draw()} << 32 | draw()));
  const auto mark_of = [&](int rank) {
    return folder / formatted(".kiln-rank-%d-%s", rank, job.c_str());
  };
  std::optional<Mark> mine;
  world.agree([&] {
    make_folders(folder);
    mine.emplace(mark_of(world.rank()));
  });
  int leader = 0;
  std::error_code fault;
  while (leader < world.rank() && !fs::exists(mark_of(leader), fault)) ++leader;
  return world.gather(leader);  // afterwards no rank looks for marks any more
}

std::vector<FinishedFile> files_of_others(World& world, const std::vector<int>& leaders,
                                          const std::vector<FinishedFile>& mine) {
  std::vector<std::string> names;
  for (const FinishedFile& file : mine) {
    names.push_back(file.temporary.string());
    names.push_back(file.name.string());
  }
  const std::vector<std::vector<std::string>> all = world.gather(names);
  std::vector<FinishedFile> others;
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (rank == world.rank() || leaders[r] != world.rank()) continue;
    for (std::size_t k = 0; k + 1 < all[r].size(); k += 2)
      others.push_back({all[r][k], all[r][k + 1]});
  }
  return others;
}

}  // namespace kiln
