#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "data/image/image.h"
#include "report/record/metrics.h"
#include "report/record/run_summary.h"
#include "report/sinks/event_file.h"
#include "report/sinks/sinks.h"

namespace kiln {
namespace {

constexpr int kSide = 480;  // at least, where a class has a pixel
constexpr std::array<double, 3> kLight = {247, 251, 255}, kDark = {8, 48, 107};

// RGB, [side, side, 3].
std::vector<std::uint8_t> draw(const ConfusionMatrix& matrix, int cell) {
  const int side = cell * matrix.num_classes;
  const std::vector<ClassScore> rows = scores_by_label(matrix);
  std::vector<std::uint8_t> pixels;
  pixels.reserve(static_cast<std::size_t>(side) * static_cast<std::size_t>(side) * 3);
  for (int y = 0; y < side; ++y) {
    const ClassScore& row = rows[static_cast<std::size_t>(y / cell)];
    const auto total = static_cast<double>(std::max<std::int64_t>(row.images, 1));
    for (int x = 0; x < side; ++x) {
      const double share = static_cast<double>(matrix.at(row.label, x / cell)) / total;
      for (std::size_t c = 0; c < 3; ++c)
        pixels.push_back(
            static_cast<std::uint8_t>(std::lround(kLight[c] + share * (kDark[c] - kLight[c]))));
    }
  }
  return pixels;
}

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".kiln";

constexpr std::string_view kBeginning = "events.out.tfevents.";

std::string event_file_name(double time) {
  return std::string(kBeginning) + formatted("%.0f.", time) + host_name() + std::string(kEnding);
}

// The time in the name, in whole seconds; 0: none.
double time_of(const fs::path& event_file) {
  return std::strtod(event_file.filename().string().substr(kBeginning.size()).c_str(), nullptr);
}

// Of other runs, which TensorBoard would show as part of this one, or of this run before it was
// interrupted.
std::vector<fs::path> other_files(const fs::path& own) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(own.parent_path()))
    if (entry.path().filename().string().starts_with(kBeginning) &&
        entry.path().extension() == kEnding && entry.path() != own)
      files.push_back(entry.path());
  return files;
}

ProtoMessage metadata(std::string_view plugin, std::string_view content) {
  return ProtoMessage().message(1, ProtoMessage().text(1, plugin).text(2, content));
}

// As TensorFlow 2 writes hyperparameters: an empty float scalar that carries metadata.
ProtoMessage hyperparameter_value(std::string_view tag, const ProtoMessage& data) {
  constexpr int kFloat = 1;
  const ProtoMessage scalar = ProtoMessage().integer(1, kFloat).message(2, ProtoMessage());
  return ProtoMessage().text(1, tag).message(8, scalar).message(9,
                                                                metadata("hparams", data.bytes()));
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
    write_hyperparameters(start);
  }

  // A file of a later name, which a TensorBoard that is open reads next: it forgets what it had
  // read at a START with step 0, and is told everything again. The old file is emptied, and removed
  // at the end: TensorBoard would not get past one that is gone.
  void resume(const RunRecord& so_far) override {
    double time = so_far.interruptions.back().time;
    for (const fs::path& file : other_files(folder_ / "none")) {
      time = std::max(time, time_of(file) + 1);
      if (time_of(file) >= std::nearbyint(so_far.start.time)) old_files_.insert(file);
    }
    begin_file(time);
    constexpr int kStart = 1;
    append(
        ProtoMessage().real(1, time).integer(2, 0).message(7, ProtoMessage().integer(1, kStart)));
    RunSink::resume(so_far);
    for (const fs::path& file : old_files_)
      fs::file_size(file) == 0 ? void(fs::remove(file)) : fs::resize_file(file, 0);
  }

  void step(const StepRecord& step) override {
    write_scalars(step_metrics(step), step.time, global_step(step));
  }

  void epoch(const EpochRecord& epoch, const ValidationDetails* details) override {
    if (!std::exchange(has_epoch_, true))
      for (const fs::path& earlier : other_files(path_))
        if (!old_files_.contains(earlier)) fs::remove(earlier);
    write_scalars(epoch_metrics(epoch), epoch.time, epoch.epoch);
    if (details != nullptr) write_pictures(*details, epoch);
  }

  void end(const RunRecord& run) override {
    constexpr int kSuccess = 1, kFailure = 2;
    const ProtoMessage ended =
        ProtoMessage()
            .integer(1, run.end.status == RunStatus::kFailed ? kFailure : kSuccess)
            .real(2, run.end.time);
    write_values(ProtoMessage().message(1, hyperparameter_value("_hparams_/session_end_info",
                                                                ProtoMessage().message(4, ended))),
                 run.end.time, 0);
    for (const fs::path& file : old_files_) fs::remove(file);
    if (!has_epoch_ && !other_files(path_).empty()) fs::remove(path_);
  }

 private:
  void begin_file(double time) {
    path_ = folder_ / event_file_name(time);
    file_ = std::make_unique<AppendedFile>(path_);
    append(ProtoMessage().real(1, time).text(3, "brain.Event:2"));
  }
  void append(const ProtoMessage& event) { file_->append(tfrecord(event.bytes())); }

  // `summary`: a value a field 1.
  void write_values(const ProtoMessage& summary, double time, long long step) {
    append(ProtoMessage()
               .real(1, time)
               .integer(2, static_cast<std::uint64_t>(step))
               .message(5, summary));
  }

  void write_scalars(const std::vector<Metric>& metrics, double time, long long step) {
    ProtoMessage summary;
    for (const Metric& metric : metrics)
      summary.message(
          1, ProtoMessage().text(1, metric.name).small_real(2, static_cast<float>(metric.value)));
    write_values(summary, time, step);
  }

  // A map entry is a message of key 1 and value 2; google.protobuf.Value holds text in field 3.
  void write_hyperparameters(const RunStart& start) {
    ProtoMessage session;
    for (const auto& [name, value] : start.options)
      session.message(
          1, ProtoMessage().text(1, name).message(2, ProtoMessage().text(3, printable(value))));
    session.real(5, start.time);
    write_values(
        ProtoMessage().message(1, hyperparameter_value("_hparams_/session_start_info",
                                                       ProtoMessage().message(3, session))),
        start.time, 0);
  }

  // Class names are only in the descriptions: a tag must stay the same across epochs.
  void write_pictures(const ValidationDetails& details, const EpochRecord& epoch) {
    ProtoMessage summary;
    const auto add = [&](const std::string& tag, const std::string& description,
                         const ProtoMessage& image) {
      const ProtoMessage about =
          ProtoMessage().message(1, ProtoMessage().text(1, "images")).text(3, description);
      summary.message(1, ProtoMessage().text(1, tag).message(4, image).message(9, about));
    };
    if (!details.confusion.empty()) {
      const Picture picture = confusion_picture(details.confusion);
      add("Confusion matrix", "Rows: true classes; columns: predictions; in class order.",
          image(picture.side, picture.side, picture.png));
    }
    const auto add_all = [&](const std::string& group, const std::vector<JudgedImage>& images) {
      for (std::size_t i = 0; i < images.size(); ++i)
        if (!images[i].thumbnail.jpeg.empty())
          add(group + "/" + std::to_string(i + 1), verdict_text(images[i]),
              image(images[i].thumbnail.height, images[i].thumbnail.width,
                    images[i].thumbnail.jpeg));
    };
    add_all("Most confidently wrong", details.most_wrong);
    add_all("Samples", details.samples);
    write_values(summary, epoch.time, epoch.epoch);
  }

  static ProtoMessage image(int height, int width, const std::string& file) {
    constexpr int kRgb = 3;
    return ProtoMessage()
        .integer(1, static_cast<std::uint64_t>(height))
        .integer(2, static_cast<std::uint64_t>(width))
        .integer(3, kRgb)
        .text(4, file);
  }

  std::string verdict_text(const JudgedImage& judged) const {
    const auto name = [&](int id) { return printable(classes_.at(static_cast<std::size_t>(id))); };
    return name(judged.truth) + ", predicted as " + name(judged.guess) +
           formatted(" (%.1f %%): ", 100 * judged.confidence) + printable(judged.file);
  }

  fs::path folder_, path_;
  std::set<fs::path> old_files_;  // of this run, before it was interrupted
  bool has_epoch_ = false;
  std::unique_ptr<AppendedFile> file_;
  std::vector<std::string> classes_;
};

}  // namespace

Picture confusion_picture(const ConfusionMatrix& matrix) {
  const int cell = std::max(1, kSide / std::max(1, matrix.num_classes));
  const int side = cell * matrix.num_classes;
  return {side, encode_png({{side, side}, draw(matrix, cell)})};
}

std::unique_ptr<RunSink> make_tensorboard(const std::filesystem::path& folder) {
  return std::make_unique<Tensorboard>(folder);
}

}  // namespace kiln
