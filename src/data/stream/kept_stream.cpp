#include "data/stream/kept_stream.h"

#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/archive/archive.h"
#include "data/dataset/readers.h"
#include "data/stream/class_ids.h"
#include "data/stream/stream_source.h"

namespace kiln {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(50);
constexpr std::string_view kNoImage = "-";  // in place of an image whose record is bad

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
    Dataset set;
    take_given_names(context, set);
    for (const RawLabel& label : labels_)
      if (label.is_written)
        take_texts({label.text}, set.found);
      else
        set.found.labels.push_back(label);
    set.kind = Dataset::Kind::kKeptStream;
    set.exif = exif_of(set, plan_.records);
    set.root = plan_.path;
    set.name = plan_.name;
    set.samples = std::move(samples_);
    settle_labels(set, plan_.records.first_label);
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
    if (!is_bad && record.label == RawLabel{}) refuse_unlabeled(name_, record.name);
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

  int number_of_label(const RawLabel& label) {
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
  std::vector<RawLabel> labels_;
  std::map<RawLabel, int> numbers_;
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
