#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "base/tfrecord.h"
#include "base/url.h"
#include "data/image/image.h"
#include "report/sinks.h"

namespace kiln {
namespace {

constexpr std::string_view kEnding = ".kiln", kBeginning = "events.out.tfevents.";

// Hyperparameters as TensorFlow 2 writes them: in the metadata of a float scalar without a value.
ProtoMessage hyperparameter_value(std::string_view tag, const ProtoMessage& data) {
  constexpr int kFloat = 1;
  const ProtoMessage scalar = ProtoMessage().integer(1, kFloat).message(2, ProtoMessage());
  const ProtoMessage plugin = ProtoMessage().text(1, "hparams").text(2, data.bytes());
  return ProtoMessage().text(1, tag).message(8, scalar).message(9,
                                                                ProtoMessage().message(1, plugin));
}

// `summary`: a Summary message, with each value in a field 1.
std::string values_event(const ProtoMessage& summary, double time, long long step) {
  const auto number = static_cast<std::uint64_t>(step);
  return tfrecord(ProtoMessage().real(1, time).integer(2, number).message(5, summary).bytes());
}

ProtoMessage image(int height, int width, const std::string& file) {
  constexpr int kRgb = 3;
  return ProtoMessage()
      .integer(1, static_cast<std::uint64_t>(height))
      .integer(2, static_cast<std::uint64_t>(width))
      .integer(3, kRgb)
      .text(4, file);
}

// A confusion matrix as an image: rows are true classes, columns are predictions, and darker cells
// hold a larger share of their row.
ProtoMessage confusion_image(const ConfusionMatrix& matrix) {
  constexpr int kSide = 480;  // pixels, at most; more classes than that get one pixel each
  constexpr std::array<double, 3> kLight = {247, 251, 255}, kDark = {8, 48, 107};
  const int cell = std::max(1, kSide / std::max(1, matrix.num_classes));
  const int side = cell * matrix.num_classes;
  const std::vector<ClassScore> rows = scores_by_label(matrix);
  std::vector<std::uint8_t> pixels;  // RGB, [side, side, 3]
  pixels.reserve(static_cast<std::size_t>(side) * static_cast<std::size_t>(side) * 3);
  for (int y = 0; y < side; ++y) {
    const ClassScore& row = rows[y / cell];
    const auto total = static_cast<double>(std::max<std::int64_t>(row.images, 1));
    for (int x = 0; x < side; ++x) {
      const double share = static_cast<double>(matrix.at(row.label, x / cell)) / total;
      for (std::size_t c = 0; c < 3; ++c)
        pixels.push_back(
            static_cast<std::uint8_t>(std::lround(kLight[c] + share * (kDark[c] - kLight[c]))));
    }
  }
  return image(side, side, encode_png({{side, side}, std::move(pixels)}));
}

}  // namespace

std::string first_event(double time) {
  return tfrecord(ProtoMessage().real(1, time).text(3, "brain.Event:2").bytes());
}

// In Protocol Buffers, a map entry is a message with the key in field 1 and the value in field 2,
// and google.protobuf.Value holds a string in field 3.
std::string options_event(const TextPairs& options, double time) {
  ProtoMessage session;
  for (const auto& [name, value] : options)
    session.message(
        1, ProtoMessage().text(1, name).message(2, ProtoMessage().text(3, for_people(value))));
  session.real(5, time);
  return values_event(
      ProtoMessage().message(1, hyperparameter_value("_hparams_/session_start_info",
                                                     ProtoMessage().message(3, session))),
      time, 0);
}

std::string scalars_event(const std::vector<Metric>& metrics, double time, long long step) {
  ProtoMessage summary;
  for (const Metric& metric : metrics)
    summary.message(
        1, ProtoMessage().text(1, metric.name).small_real(2, static_cast<float>(metric.value)));
  return values_event(summary, time, step);
}

// Class names are only in the descriptions, because tags must stay the same across epochs.
std::string pictures_event(const ValidationDetails& details,
                           const std::vector<std::string>& classes, double time, long long step) {
  constexpr std::size_t kMostPictures = 24;  // of a gallery
  ProtoMessage summary;
  const auto add = [&](const std::string& tag, const std::string& description,
                       const ProtoMessage& picture) {
    const ProtoMessage about =
        ProtoMessage().message(1, ProtoMessage().text(1, "images")).text(3, description);
    summary.message(1, ProtoMessage().text(1, tag).message(4, picture).message(9, about));
  };
  if (!details.confusion.empty())
    add("Confusion matrix", "Rows: true classes; columns: predictions; in class order.",
        confusion_image(details.confusion));
  const auto name = [&](int id) { return for_people(classes.at(id)); };
  for (const PictureList& list : details.pictures)
    for (std::size_t i = 0; i < std::min(list.images.size(), kMostPictures); ++i) {
      const JudgedImage& judged = list.images[i];
      const Thumbnail& thumbnail = judged.thumbnail;
      if (thumbnail.jpeg.empty()) continue;
      const std::string verdict = list.word.empty()
                                      ? name(judged.truth) + ", predicted as " + name(judged.guess)
                                      : name(judged.guess) + " " + list.word;  // "cat missed"
      add(list.heading + "/" + std::to_string(i + 1),
          verdict + formatted(" (%.1f %%): ", 100 * judged.confidence) + for_people(judged.file),
          image(thumbnail.height, thumbnail.width, thumbnail.jpeg));
    }
  return values_event(summary, time, step);
}

std::string end_event(bool succeeded, double time) {
  constexpr int kSuccess = 1, kFailure = 2;
  const ProtoMessage ended =
      ProtoMessage().integer(1, succeeded ? kSuccess : kFailure).real(2, time);
  return values_event(
      ProtoMessage().message(
          1, hyperparameter_value("_hparams_/session_end_info", ProtoMessage().message(4, ended))),
      time, 0);
}

std::string event_file_name(double time) {
  return std::string(kBeginning) + formatted("%.0f.", time) + host_name() + std::string(kEnding);
}

bool is_event_file_name(const std::string& name) {
  return name.starts_with(kBeginning) && name.ends_with(kEnding);
}

namespace {

namespace fs = std::filesystem;

// Returns the event files beside `own`: those of other runs, which TensorBoard would show as part
// of this one, and those that this run wrote before it was interrupted.
std::vector<fs::path> other_files(const fs::path& own) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(own.parent_path()))
    if (is_event_file_name(entry.path().filename().string()) && entry.path() != own)
      files.push_back(entry.path());
  return files;
}

class Tensorboard : public RunSink {
 public:
  explicit Tensorboard(const fs::path& folder) : folder_(folder) {
    std::error_code fault;
    fs::create_directories(folder, fault);
    if (fault)
      throw std::runtime_error("The folder '" + folder.string() +
                               "' cannot be created: " + system_words(fault.value()) + ".");
  }

  std::string_view name() const override { return "TensorBoard"; }

  void start(const RunStart& start) override {
    if (path_.empty()) begin_file(start.time);
    classes_ = start.data.classes;
    file_->append(options_event(start.options, start.time));
  }

  // Starts a file whose name sorts after the old ones, which a running TensorBoard reads next. At a
  // START event with step 0 TensorBoard discards what it has read, and everything is written again.
  // The old files are emptied now and removed at the end or at the next resume, because TensorBoard
  // would never get past a file that disappeared while it was being read.
  void resume(const RunRecord& so_far) override {
    double time = so_far.interruptions.back().time;
    for (const fs::path& file : other_files(folder_ / "none")) {
      const std::string name = file.filename().string();
      const double begun = std::strtod(name.c_str() + kBeginning.size(), nullptr);  // or 0
      time = std::max(time, begun + 1);
      if (begun >= std::nearbyint(so_far.start.time)) old_files_.insert(file);
    }
    begin_file(time);
    constexpr int kStart = 1;
    file_->append(tfrecord(ProtoMessage()
                               .real(1, time)
                               .integer(2, 0)
                               .message(7, ProtoMessage().integer(1, kStart))
                               .bytes()));
    RunSink::resume(so_far);
    for (const fs::path& file : old_files_)
      fs::file_size(file) == 0 ? void(fs::remove(file)) : fs::resize_file(file, 0);
  }

  void step(const StepRecord& step) override {
    file_->append(scalars_event(step_metrics(step), step.time, global_step(step)));
  }

  void epoch(const EpochRecord& epoch, const ValidationDetails* details) override {
    if (!std::exchange(has_epoch_, true))
      for (const fs::path& earlier : other_files(path_))
        if (!old_files_.contains(earlier)) fs::remove(earlier);
    file_->append(scalars_event(epoch_metrics(epoch), epoch.time, epoch.epoch));
    if (details != nullptr)
      file_->append(pictures_event(*details, classes_, epoch.time, epoch.epoch));
  }

  void end(const RunRecord& run) override {
    file_->append(end_event(run.end.status != RunStatus::kFailed, run.end.time));
    for (const fs::path& file : old_files_) fs::remove(file);
    if (!has_epoch_ && !other_files(path_).empty()) fs::remove(path_);
  }

 private:
  void begin_file(double time) {
    path_ = folder_ / event_file_name(time);
    file_ = std::make_unique<AppendedFile>(path_);
    file_->append(first_event(time));
  }
  fs::path folder_, path_;
  std::set<fs::path> old_files_;  // written by this run before it was interrupted
  bool has_epoch_ = false;
  std::unique_ptr<AppendedFile> file_;
  std::vector<std::string> classes_;
};

}  // namespace

std::unique_ptr<RunSink> make_tensorboard(const std::filesystem::path& folder) {
  return std::make_unique<Tensorboard>(folder);
}

}  // namespace kiln
