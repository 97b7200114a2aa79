// --task, and what follows from it for other options.
#include <algorithm>
#include <array>
#include <string>

#include "cli/arguments.h"
#include "cli/rows.h"
#include "cli/run_config.h"

namespace kiln {
namespace {

using enum Canvas;

constexpr const char* kSeveral = "multi-label";

// What needs one label for each image.
struct UnfitForSeveral {
  const char* name;
  std::string value;  // that cannot be used; empty: any but the default
};
const std::array<UnfitForSeveral, 9> kUnfitForSeveral = {{{"sample", "balanced"},
                                                          {"folds", ""},
                                                          {"labels", ""},
                                                          {"auto", "True"},
                                                          {"shard-by", ""},
                                                          {"steps-per-epoch", ""},
                                                          {"explain", ""},
                                                          {"best-by", "top1"},
                                                          {"best-by", "macro-recall"}}};
// And those that need several.
const std::array<UnfitForSeveral, 2> kUnfitForOne = {{{"best-by", "map"}, {"best-by", "macro-f1"}}};

bool has_several(const Given& given) {
  return given.is_set("task", kSeveral);
}

}  // namespace

Rows<RecordOptions> task_rows() {
  return opt(&RecordOptions::task, "task",
             {{"auto", TaskKind::kAuto},
              {"single-label", TaskKind::kSingleLabel},
              {kSeveral, TaskKind::kMultiLabel}},
             {kPaths, kParameter},
             "Whether an image has one class or several. multi-label: several, none too; the label "
             "of a table has a ; between them. auto: one; lists of them are an error.");
}

Rows<RecordOptions> one_label_rows() {
  return opt(&RecordOptions::task, "task",
             {{"auto", TaskKind::kAuto}, {"single-label", TaskKind::kSingleLabel}},
             {kPaths, kParameter},
             "single-label: a label with a ; in it is one name. auto: it is refused, since it may "
             "be several.");
}

bool task_refuses(const Given& given, const char* name) {
  return has_several(given) &&
         std::ranges::find(kUnfitForSeveral, std::string_view(name), [](auto& unfit) {
           return std::string_view(unfit.name);
         }) != kUnfitForSeveral.end();
}

void imply_by_task(Given& given) {
  if (has_several(given)) given.imply("best-by", "map");
}

void check_task(Given& given, const TrainConfig& config) {
  const bool several = has_several(given);
  if (several && config.data.has_own_images())
    given.refuse("train-data-path",
                 "with {rank} cannot be used with --task multi-label, whose "
                 "ranks share all images: leave one of the two out.");
  const auto refuse = [&](const UnfitForSeveral& unfit) {
    if (!given.is_set(unfit.name, unfit.value)) return;
    given.fault(unfit.name, "--" + std::string(unfit.name) +
                                (unfit.value.empty() ? "" : " " + unfit.value) +
                                (several ? " needs one label for each image, but --task is "
                                           "multi-label: use another value, or leave it out."
                                         : " is of several labels an image: add --task "
                                           "multi-label, or use another value."));
  };
  if (several)
    std::ranges::for_each(kUnfitForSeveral, refuse);
  else
    std::ranges::for_each(kUnfitForOne, refuse);
}

}  // namespace kiln
