#include "data/stream/kept_stream.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <future>
#include <optional>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/archive/archive.h"
#include "data/dataset/archive_files.h"
#include "data/dataset/readers.h"
#include "data/stream/class_ids.h"
#include "data/stream/stream_source.h"

namespace kiln {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(50);
constexpr std::string_view kNoImage = "-";  // in place of an image whose record is bad

// Returns the label as a number; empty if it is not one, or is negative.
std::optional<std::int64_t> number_of(const std::string& label) {
  std::int64_t number = -1;
  const auto [end, fault] = std::from_chars(label.data(), label.data() + label.size(), number);
  if (fault != std::errc() || end != label.data() + label.size() || number < 0) return {};
  return number;
}

// Assigns the labels of a stream to classes.
class LabelClasses {
 public:
  LabelClasses(const std::vector<std::string>& labels, const DatasetContext& context)
      : labels_(labels), context_(context), shown_("--classes '" + file() + "'") {
    if (!file().empty()) names_ = read_class_lines(file(), shown_, context);
    if (are_numbers())
      take_numbers();
    else
      take_names();
  }

  const std::vector<std::string>& names() const { return names_; }
  std::optional<int> first_label() const { return first_; }
  // `label` is an index into the labels.
  int id(std::size_t label) const { return ids_[label]; }

 private:
  const std::string& file() const { return context_.records.classes_file; }

  // True if all labels are numbers, unless all of them are names of classes, which take precedence.
  bool are_numbers() const {
    const std::set<std::string> names(names_.begin(), names_.end());
    const auto any = [&](auto&& test) { return std::any_of(labels_.begin(), labels_.end(), test); };
    return !any([](const std::string& label) { return !number_of(label); }) &&
           any([&](const std::string& label) { return !names.contains(label); });
  }

  void take_names() {
    if (file().empty()) {
      names_ = labels_;
      std::sort(names_.begin(), names_.end());
    }
    std::unordered_map<std::string, int> ids;
    for (std::size_t id = 0; id < names_.size(); ++id)
      ids.emplace(names_[id], static_cast<int>(id));
    for (const std::string& label : labels_) {
      const auto found = ids.find(label);
      if (found == ids.end())
        context_.fail("the class '" + excerpt(label) + "' of an image is not in " + shown_ +
                      ". Add a line for it, or remove the image.");
      ids_.push_back(found->second);
    }
  }

  void take_numbers() {
    std::vector<std::int64_t> numbers;
    for (const std::string& label : labels_) numbers.push_back(*number_of(label));
    const auto [lowest, highest] = std::minmax_element(numbers.begin(), numbers.end());
    const auto num_names = static_cast<std::int64_t>(names_.size());
    const bool from_one = *lowest >= 1 && (names_.empty() || *highest == num_names);
    first_ = context_.records.first_label.value_or(from_one ? 1 : 0);
    if (*lowest < *first_) context_.fail("an image has label 0, but --first-label is 1. Omit it.");
    if (*highest - *first_ >= (names_.empty() ? std::int64_t{kMaxClasses} : num_names))
      context_.fail("an image has label " + std::to_string(*highest) + ", but " +
                    (names_.empty() ? "that is more classes than are supported. Check its label."
                                    : shown_ + " has " + std::to_string(num_names) +
                                          " classes. Add a line for each class."));
    for (std::int64_t id = num_names; id <= *highest - *first_; ++id)
      names_.push_back(std::to_string(id + *first_));
    for (const std::int64_t number : numbers) ids_.push_back(static_cast<int>(number - *first_));
  }

  const std::vector<std::string>& labels_;  // distinct
  const DatasetContext& context_;
  const std::string shown_;
  std::vector<std::string> names_;
  std::optional<int> first_;
  std::vector<int> ids_;
};

class StreamKeeper {
 public:
  explicit StreamKeeper(const KeptStreamPlan& plan)
      : plan_(plan),
        name_(plan.name + " '" + stream_path(plan.path, 0) + "'"),
        bytes_(plan.most_in_memory) {}

  // The name in errors: "Validation dataset '/data/validation_0'".
  const std::string& name() const { return name_; }

  void read(StreamWatch& watch) {
    StreamSource source(plan_.path, plan_.records, watch);
    source.begin_epoch(0);
    for (StreamRecord record; source.next(record);) add(record);
    notes_ = source.left_out().notes();
  }

  Dataset take() {
    const DatasetContext context{.root = plan_.path, .name = plan_.name, .records = plan_.records};
    if (labels_.empty())
      context.fail("the stream has no images. Check the program that writes it.");
    const LabelClasses classes(labels_, context);
    Dataset set;
    set.kind = Dataset::Kind::kKeptStream;
    set.exif = exif_of(set, plan_.records);
    set.root = plan_.path;
    set.name = plan_.name;
    set.classes = classes.names();
    set.first_label = classes.first_label();
    set.samples = std::move(samples_);
    for (std::size_t i = 0; i < set.samples.size(); ++i)
      set.samples.set_label(i, classes.id(static_cast<std::size_t>(set.samples.label(i))));
    set.memory_bytes = bytes_.memory_bytes();
    set.archives.push_back({"", bytes_.take()});
    set.schema_json = schema_text(set.classes);
    set.samples_json = samples_text(set);
    for (const std::string& note : notes_) set.notes.push_back(name_ + ": " + note);
    if (num_bad_ > 0)
      set.notes.push_back(name_ + ": " + std::to_string(num_bad_) +
                          " records cannot be read, first " + first_fault_);
    return set;
  }

 private:
  void add(const StreamRecord& record) {
    const bool is_bad = !record.fault.empty();
    if (!is_bad && record.label.empty()) refuse_unlabeled(name_, record.name);
    if (is_bad && num_bad_++ == 0)
      first_fault_ = "'" + printable(record.name) + "': " + record.fault;
    const std::string_view image = is_bad ? kNoImage : std::string_view(record.bytes);
    const ArchiveMember member{
        .offset = bytes_.size(), .stored_size = image.size(), .size = image.size()};
    bytes_.append(image);
    samples_.push_back({.file_name = record.name,
                        .label = is_bad ? 0 : number_of_label(record.label),
                        .id = static_cast<std::int64_t>(samples_.size()),
                        .size = size_of(image)},
                       member);
  }

  int number_of_label(const std::string& label) {
    const auto [found, is_new] = numbers_.emplace(label, static_cast<int>(labels_.size()));
    if (is_new) labels_.push_back(label);
    return found->second;
  }

  static std::optional<ImageSize> size_of(std::string_view image) {
    try {
      return read_image_size(image, Exif::kIgnore);
    } catch (const ImageFault&) {  // the loader will report it
      return {};
    }
  }

  const KeptStreamPlan& plan_;
  const std::string name_;
  KeptBytes bytes_;
  SampleTable samples_;  // labels are indices into labels_
  std::vector<std::string> labels_;
  std::unordered_map<std::string, int> numbers_;
  std::size_t num_bad_ = 0;
  std::string first_fault_;
  std::vector<std::string> notes_;
};

}  // namespace

Dataset keep_stream(const KeptStreamPlan& plan) {
  StreamKeeper keeper(plan);
  StreamWatch watch;
  try {
    StreamSilence silence(watch, plan.silence, plan.warn);
    std::future<void> reading = std::async(std::launch::async, [&] { keeper.read(watch); });
    while (reading.wait_for(kBetweenLooks) == std::future_status::timeout) {
      try {
        silence.judge(keeper.name());
      } catch (const Error&) {
        watch.closing = true;  // so that the reading thread ends
        throw;
      }
    }
    reading.get();
  } catch (const Error&) {
    throw;
  } catch (const std::system_error&) {
    throw;
  } catch (const SpoolFault& fault) {
    throw Error(ErrorCode::kUserError,
                keeper.name() + ": its images need more than the memory limit of " +
                    bytes_text(static_cast<long long>(plan.most_in_memory)) + ", and " +
                    fault.what() + ". Raise --cache-bytes, or set TMPDIR to another folder.");
  } catch (const std::runtime_error& fault) {  // StreamFault, ArchiveFault, RecordFault
    throw error_of_stream(keeper.name(), fault);
  }
  return keeper.take();
}

}  // namespace kiln
