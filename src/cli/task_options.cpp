// --task, and what follows from it for other options.
#include <algorithm>
#include <span>
#include <string>

#include "cli/arguments.h"
#include "cli/rows.h"
#include "cli/run_config.h"

namespace kiln {
namespace {

using enum Canvas;

constexpr const char* kSeveral = "multi-label";

constexpr const char* kForOne =
    "needs one label for each image, but --task is multi-label: use another value, or leave it "
    "out.";
constexpr const char* kForSeveral =
    "is of several labels an image: add --task multi-label, or use another value.";

constexpr UnfitOption kUnfitForSeveral[] = {
    {"sample", "balanced"}, {"folds", ""},       {"labels", ""},
    {"auto", "True"},       {"shard-by", ""},    {"steps-per-epoch", ""},
    {"explain", ""},        {"best-by", "top1"}, {"best-by", "macro-recall"}};
constexpr UnfitOption kUnfitForOne[] = {{"best-by", "map"}, {"best-by", "macro-f1"}};

}  // namespace

bool has_several(const Given& given) {
  return given.is_set("task", kSeveral);
}

void refuse_unfit(Given& given, std::span<const UnfitOption> all,
                  const std::function<std::string(const UnfitOption&)>& clause) {
  for (const UnfitOption& unfit : all)
    if (const std::string value(unfit.value); given.is_set(unfit.name, value))
      given.refuse(unfit.name, value + (value.empty() ? "" : " ") + clause(unfit));
}

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
  return {record_rows(), list_set_rows(),
          opt(&RecordOptions::task, "task",
              {{"auto", TaskKind::kAuto}, {"single-label", TaskKind::kSingleLabel}},
              {kPaths, kParameter},
              "single-label: a label with a ; in it is one name. auto: it is refused, since it may "
              "be several.")};
}

bool task_refuses(const Given& given, std::string_view name) {
  return has_several(given) && std::ranges::count(kUnfitForSeveral, name, &UnfitOption::name) > 0;
}

void check_task(Given& given, const TrainConfig& config) {
  const bool several = has_several(given);
  if (several && config.data.has_own_images())
    given.refuse("train-data-path",
                 "with {rank} cannot be used with --task multi-label, whose ranks share all "
                 "images: leave one of the two out.");
  refuse_unfit(given, several ? std::span<const UnfitOption>(kUnfitForSeveral) : kUnfitForOne,
               [several](const UnfitOption&) { return several ? kForOne : kForSeveral; });
}

}  // namespace kiln
