#include "model/weights/weight_match.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "model/weights/network_kernels.h"

namespace kiln {
namespace {

constexpr std::size_t kNamed = 5;       // tensors listed in a message
constexpr std::size_t kNamedRows = 10;  // classes listed in the log
constexpr double kAlike = 0.5;          // less similar weights belong to no known network

// Lists at most kNamed names, and how many there are in all.
std::string first_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamed) text += ", … (" + std::to_string(names.size()) + " in all)";
  return text;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

// How the convolutions differ from the network's: "; missing: …; unexpected: …; mismatched shape:
// …".
std::string differences(const KnownNetwork& network, const StateDict& state) {
  std::unordered_map<std::string_view, const StoredTensor*> theirs;
  for (const StoredTensor& tensor : state)
    if (tensor.shape.size() == 4) theirs.emplace(tensor.name, &tensor);
  std::vector<std::string> missing, misfits, unexpected;
  for (const Kernel& kernel : kernels_of(network)) {
    const auto found = theirs.find(kernel.name);
    if (found == theirs.end()) {
      missing.push_back(kernel.name);
      continue;
    }
    if (found->second->shape != kernel.shape)
      misfits.push_back(kernel.name + " has shape " + shape_text(found->second->shape) +
                        " instead of " + shape_text(kernel.shape));
    theirs.erase(found);
  }
  for (const StoredTensor& tensor : state)
    if (theirs.contains(tensor.name)) unexpected.push_back(tensor.name);
  std::string text;
  if (!missing.empty()) text += "; missing: " + first_names(missing);
  if (!unexpected.empty()) text += "; unexpected: " + first_names(unexpected);
  if (!misfits.empty()) text += "; mismatched shape: " + first_names(misfits);
  return text;
}

std::string count_text(std::int64_t count, const char* one, const char* more) {
  return std::to_string(count) + " " + (count == 1 ? one : more);
}

ClassRows without_names(std::size_t num_classes, std::int64_t num_rows) {
  ClassRows match{std::vector<std::int64_t>(num_classes, kFreshRow), ""};
  if (static_cast<std::int64_t>(num_classes) != num_rows) {
    match.text = "the last layer is fresh, since the weights have " +
                 count_text(num_rows, "output", "outputs") + " and the data " +
                 count_text(static_cast<std::int64_t>(num_classes), "class", "classes");
    return match;
  }
  std::iota(match.rows.begin(), match.rows.end(), 0);
  match.text =
      "the last layer is loaded too: it has one output per class, and the classes are assumed to "
      "have the same order";
  return match;
}

}  // namespace

bool ClassRows::any() const {
  return std::any_of(rows.begin(), rows.end(), [](std::int64_t row) { return row != kFreshRow; });
}

void require_weights_of(const KnownNetwork& network, const WeightSource& source) {
  if (likeness(source.state, network) == 1) return;
  const KnownNetwork& nearest = nearest_network(source.state);
  const std::string name(network.name), other(nearest.name);
  const double share = likeness(source.state, nearest);
  std::string remedy = ". Give weights of " + name + ".";
  if (&nearest != &network && share >= kAlike)
    remedy = std::string(". They are ") + (share == 1 ? "those of " : "most like those of ") +
             other + ": use that network, or weights of " + name + ".";
  else if (share < kAlike)
    remedy = ". They do not match any network that this program knows." + remedy.substr(1);
  throw Error(ErrorCode::kInvalidModelDirectory, "The weights in '" + source.where +
                                                     "' are not those of " + name +
                                                     differences(network, source.state) + remedy);
}

ClassRows match_classes(const std::vector<std::string>& classes,
                        const std::vector<std::string>& source_classes, std::int64_t num_rows) {
  if (source_classes.empty() || static_cast<std::int64_t>(source_classes.size()) != num_rows)
    return without_names(classes.size(), num_rows);
  std::unordered_map<std::string_view, std::int64_t> row_of;
  for (std::size_t row = 0; row < source_classes.size(); ++row)
    row_of.emplace(source_classes[row], static_cast<std::int64_t>(row));
  ClassRows match;
  std::vector<std::string> fresh;
  for (const std::string& name : classes) {
    const auto found = row_of.find(name);
    match.rows.push_back(found == row_of.end() ? kFreshRow : found->second);
    if (found == row_of.end()) fresh.push_back(name);
  }
  if (classes == source_classes)
    match.text = "the last layer is loaded too, since the classes are the same";
  else if (!match.any())
    match.text = "the last layer is fresh, since the weights know none of the classes";
  else if (fresh.empty())
    match.text = "the last layer reuses the rows of the same classes";
  else
    match.text = formatted("the last layer reuses the rows of %zu of %zu classes; fresh: ",
                           classes.size() - fresh.size(), classes.size()) +
                 quoted_names(fresh, kNamedRows);
  return match;
}

}  // namespace kiln
