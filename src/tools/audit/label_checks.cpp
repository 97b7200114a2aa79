#include "tools/audit/label_checks.h"

#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "base/text.h"
#include "train/features/confident_learning.h"

namespace kiln {
namespace {

std::span<const float> numbers_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

std::vector<std::uint32_t> check_one_each(const at::Tensor& logits,
                                          const std::vector<std::int32_t>& labels,
                                          const Dataset& set, AuditRecord& record) {
  const at::Tensor probabilities = logits.softmax(1).contiguous();
  const JudgedLabels judged{numbers_of(probabilities), labels, set.classes.size()};
  const LabelNoise noise = estimate_label_noise(judged);
  record.num_judged = std::ssize(labels);
  record.num_agreed = judged.num_agreed();
  for (std::size_t c = 0; c < set.classes.size(); ++c)
    record.classes.push_back({set.classes[c], noise.images(c), 0, "", 0, 0});
  if (!can_judge(record)) return {};
  std::vector<std::uint32_t> rows = probably_wrong(judged, noise);
  for (const std::uint32_t row : rows) {
    const std::int32_t best = judged.best(row);
    record.doubtful.push_back(
        {{}, set.label_text(best), judged.row(row)[best], judged.self_confidence(row)});
  }
  for (std::size_t c = 0; c < set.classes.size(); ++c) {
    AuditedClass& audited = record.classes[c];
    audited.wrong = noise.wrong(c);
    audited.missing = noise.missing(c);
    std::int64_t most = 0;
    for (std::size_t truth = 0; truth < set.classes.size(); ++truth)
      if (truth != c && noise.at(c, truth) > most) {
        most = noise.at(c, truth);
        audited.belongs_to = set.classes[truth];
      }
  }
  return rows;
}

// Whether the images have one of several classes: not, or yes.
constexpr std::size_t kNot = 0, kYes = 1;

std::string with_changes(std::int32_t label, const std::set<int>& changed, const Dataset& set) {
  std::set<int> ids;
  set.for_each_class(label, [&](int id) { ids.insert(id); });
  for (const int id : changed)
    if (ids.erase(id) == 0) ids.insert(id);
  std::vector<std::string> names;
  for (const int id : ids) names.push_back(set.classes[static_cast<std::size_t>(id)]);
  return joined(names, std::string(1, kLabelSeparator));
}

std::vector<std::uint32_t> check_several(const at::Tensor& logits,
                                         const std::vector<std::int32_t>& labels,
                                         const Dataset& set, AuditRecord& record) {
  std::map<std::uint32_t, std::set<int>> changed;  // the doubtful classes of each row
  std::map<std::uint32_t, double> least;           // and the lowest confidence in one of them
  for (std::size_t c = 0; c < set.classes.size(); ++c) {
    const at::Tensor logit = logits.select(1, static_cast<std::int64_t>(c));
    const at::Tensor probabilities =
        at::stack({(-logit).sigmoid(), logit.sigmoid()}, 1).contiguous();
    std::vector<std::int32_t> have;
    std::int64_t given = 0, predicted = 0, both = 0;
    for (const std::int32_t label : labels) {
      bool has = false;
      set.for_each_class(label, [&](int id) { has |= id == static_cast<int>(c); });
      have.push_back(has ? kYes : kNot);
    }
    const JudgedLabels judged{numbers_of(probabilities), have, 2};
    for (std::size_t i = 0; i < have.size(); ++i) {
      const bool is_given = have[i] == kYes, is_predicted = judged.best(i) == kYes;
      given += is_given ? 1 : 0;
      predicted += is_predicted ? 1 : 0;
      both += is_given && is_predicted ? 1 : 0;
    }
    const std::int64_t either = given + predicted - both;
    record.num_judged += either;
    record.num_agreed += both;
    AuditedClass& audited =
        record.classes.emplace_back(AuditedClass{set.classes[c], given, 0, "", 0, 0});
    if (!can_judge_labels(both, either)) continue;
    const LabelNoise noise = estimate_label_noise(judged);
    audited.wrong = noise.wrong(kYes);
    audited.missing = noise.missing(kYes);
    for (const std::uint32_t row : probably_wrong(judged, noise)) {
      changed[row].insert(static_cast<int>(c));
      const double own = judged.self_confidence(row);
      const auto [known, is_new] = least.emplace(row, own);
      if (!is_new) known->second = std::min(known->second, own);
    }
  }
  std::vector<std::uint32_t> rows;
  for (const auto& [row, own] : least) rows.push_back(row);
  std::ranges::stable_sort(rows, {}, [&](std::uint32_t row) { return least.at(row); });
  for (const std::uint32_t row : rows)
    record.doubtful.push_back(
        {{}, with_changes(labels[row], changed.at(row), set), 1 - least.at(row), least.at(row)});
  return rows;
}

}  // namespace

std::vector<std::uint32_t> check_labels(const at::Tensor& logits,
                                        const std::vector<std::int32_t>& labels, const Dataset& set,
                                        AuditRecord& record) {
  return set.labels.sets.empty() ? check_one_each(logits, labels, set, record)
                                 : check_several(logits, labels, set, record);
}

}  // namespace kiln
