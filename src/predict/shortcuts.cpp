#include "predict/shortcuts.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/listing.h"
#include "record/run_summary.h"
#include "train/features/head_fit.h"

namespace kiln {
namespace {

constexpr int kQuestions = 3, kFolds = 5;
constexpr std::int64_t kFewestApart = 5;
constexpr double kLevel = 0.001;
constexpr std::size_t kMostHeaders = 2000, kHeaderBytes = 64 * 1024;

// Names of facts, and where their numbers are in ImageFacts.
struct NamedFact {
  const char* name = "";
  std::size_t begin = 0, end = 0;
};
constexpr NamedFact kFacts[] = {{"width", 0, 1},     {"height", 1, 2},     {"file size", 2, 3},
                                {"file type", 3, 4}, {"brightness", 4, 5}, {"color", 5, 8}};

using Rows = std::vector<std::uint32_t>;

class LabelCounts {
 public:
  explicit LabelCounts(std::size_t num_labels) : counts_(num_labels) {}

  void add(std::int32_t label, std::int64_t images = 1) {
    std::int64_t& count = counts_[static_cast<std::size_t>(label)];
    squares_ += images * (2 * count + images);
    count += images;
    size_ += images;
  }
  std::int64_t size() const { return size_; }
  // size() * (1 - the Gini impurity).
  double purity() const { return size_ > 0 ? share_of(squares_, size_) : 0; }
  std::int32_t largest() const { return std::ranges::max_element(counts_) - counts_.begin(); }

 private:
  std::vector<std::int64_t> counts_;
  std::int64_t size_ = 0, squares_ = 0;
};

struct Question {
  std::size_t number = 0;  // in ImageFacts
  float limit = 0;         // images up to it are parted from the others
};

// Rows are indices into both.
struct Images {
  std::vector<ImageFacts> facts;
  std::vector<std::int32_t> labels;

  LabelCounts counts_of(const Rows& rows) const {
    LabelCounts counts(static_cast<std::size_t>(std::ranges::max(labels)) + 1);
    for (const std::uint32_t i : rows) counts.add(labels[i]);
    return counts;
  }
};

// What parts the labels best; empty: nothing does.
std::optional<Question> best_question(const Images& images, Rows rows, const NamedFact& fact) {
  std::optional<Question> best;
  const LabelCounts all = images.counts_of(rows);
  double purest = all.purity() * (1 + 1e-9);
  for (std::size_t number = fact.begin; number < fact.end; ++number) {
    const auto value = [&](std::uint32_t i) { return images.facts[i][number]; };
    std::ranges::sort(rows, {}, value);
    LabelCounts low = images.counts_of({}), high = all;
    for (std::size_t place = 0; place + 1 < rows.size(); ++place) {
      low.add(images.labels[rows[place]]);
      high.add(images.labels[rows[place]], -1);
      const float here = value(rows[place]), next = value(rows[place + 1]);
      if (here == next || std::min(low.size(), high.size()) < kFewestApart) continue;
      if (const double purity = low.purity() + high.purity(); purity > purest) {
        purest = purity;
        const float middle = here + (next - here) / 2;
        best = {number, middle < next ? middle : here};
      }
    }
  }
  return best;
}

// Fits a tree to some images, branch by branch, and counts the others whose label it tells.
std::int64_t num_told(const Images& images, Rows fitted, Rows judged, const NamedFact& fact,
                      int questions) {
  if (judged.empty()) return 0;
  std::optional<Question> question;
  if (questions > 0) question = best_question(images, fitted, fact);
  if (!question)
    return std::ranges::count(judged, images.counts_of(fitted).largest(),
                              [&](std::uint32_t i) { return images.labels[i]; });
  const auto take_high = [&](Rows& rows) {
    const auto high = std::ranges::partition(rows, [&](std::uint32_t i) {
      return images.facts[i][question->number] <= question->limit;
    });
    const Rows taken(high.begin(), high.end());
    rows.erase(high.begin(), high.end());
    return taken;
  };
  const Rows fitted_high = take_high(fitted), judged_high = take_high(judged);
  return num_told(images, std::move(fitted), std::move(judged), fact, questions - 1) +
         num_told(images, fitted_high, judged_high, fact, questions - 1);
}

}  // namespace

std::vector<Shortcut> shortcuts_of(std::span<const ImageFacts> facts,
                                   std::span<const std::int32_t> labels,
                                   std::span<const std::uint32_t> groups) {
  Images images;
  std::unordered_set<std::uint32_t> seen;  // groups
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (facts[i].empty() || labels[i] < 0) continue;
    if (!groups.empty() && !seen.insert(groups[i]).second) continue;
    images.facts.push_back(facts[i]);
    images.labels.push_back(labels[i]);
  }
  const Folds folds = divided_into_folds(images.labels, {}, kFolds, /*seed=*/1);
  if (folds.count < 2) return {};
  const auto parted = [&](int fold) {
    std::pair<Rows, Rows> rows;  // in the other folds, and in this one
    for (std::uint32_t i = 0; i < folds.of.size(); ++i)
      (folds.of[i] == fold ? rows.second : rows.first).push_back(i);
    return rows;
  };
  const Rows all = parted(-1).first;
  const auto num_images = std::ssize(all);
  const std::size_t num_numbers = images.facts.front().size();
  const std::int64_t largest = num_told(images, all, all, {}, 0);
  std::vector<Shortcut> found;
  const auto judge = [&](const NamedFact& fact) {
    std::int64_t told = 0;
    for (int fold = 0; fold < folds.count; ++fold) {
      auto [fitted, judged] = parted(fold);
      told += num_told(images, std::move(fitted), std::move(judged), fact, kQuestions);
    }
    if (is_above_chance(told, num_images, share_of(largest, num_images), kLevel))
      found.push_back({fact.name, fact.end - fact.begin < num_numbers, told, largest, num_images});
  };
  std::vector<std::string> names;
  for (const NamedFact& fact : kFacts) {
    if (fact.end > num_numbers) break;
    names.emplace_back(fact.name);
    judge(fact);
  }
  std::ranges::stable_sort(found, std::ranges::greater{}, &Shortcut::told);
  const std::string together = joined(names, ", ");
  judge({together.c_str(), 0, num_numbers});
  return found;
}

std::vector<Shortcut> shortcuts_in_files(const Dataset& set,
                                         std::span<const std::uint32_t> groups) {
  if (set.is_stream() || !set.labels.sets.empty()) return {};
  const std::size_t count = std::min(set.samples.size(), kMostHeaders);
  const auto place = [&](std::size_t k) { return k * set.samples.size() / count; };
  std::vector<ImageFacts> facts(count);
  in_parallel(count, kScanThreads, [&](std::size_t k) {
    try {
      std::string bytes;
      read_first_bytes(set, place(k), kHeaderBytes, bytes);
      const auto file_bytes = stored_bytes(set, place(k));
      facts[k] = file_facts(bytes, file_bytes.value_or(0), read_image_size(bytes, set.exif));
    } catch (const ImageFault&) {  // the loader will report why
    }
  });
  std::vector<std::int32_t> labels;
  std::vector<std::uint32_t> groups_of_them;
  for (std::size_t k = 0; k < count; ++k) {
    labels.push_back(set.samples.label(place(k)));
    if (!groups.empty()) groups_of_them.push_back(groups[place(k)]);
  }
  return shortcuts_of(facts, labels, groups_of_them);
}

}  // namespace kiln
