#include "report/record/run_file.h"

#include <cerrno>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "report/record/metrics.h"
#include "report/record/run_json.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;
constexpr std::size_t kPieceBytes = 1 << 20;  // read at once
constexpr std::size_t kMostLineBytes = 256 << 20;
constexpr std::size_t kMostLineValues = 20'000'000;   // 4 for each cell of the largest matrix
constexpr std::uint64_t kFreeRecordBytes = 16 << 20;  // of records, whatever the file's size

Json metrics_json(const std::vector<Metric>& metrics) {
  Json object = Json::object();
  for (const Metric& metric : metrics) object[metric.name] = as_json(metric.value);
  return object;
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kInvalidDataset, what);
}

[[noreturn]] void refuse_unreadable(const std::filesystem::path& file, int error) {
  refuse("'" + file.string() + "' cannot be read: " + system_words(error) +
         ". Check that it is a file, and its permissions.");
}

[[noreturn]] void refuse_as_record(const std::filesystem::path& file, const Error& error) {
  refuse("'" + file.string() + "' is not a run record. " + error.what());
}

// The fault of a line.
std::string fault_text(const std::exception& failure) {
  if (dynamic_cast<const JsonFault*>(&failure) != nullptr)
    return std::string("it ") + failure.what();
  if (dynamic_cast<const Json::exception*>(&failure) != nullptr)
    return "a field is missing or has the wrong type";
  return failure.what();
}

void add_run_line(std::string_view text, RunRecord* run) {
  const Json line = parse_ordered_json(text, kMostLineValues);
  const auto event = line.at("event").get<std::string>();
  if (event == "start") {
    *run = {};
    from_json(line, run->start);
  }
  if (event == "step") from_json(line, run->steps.emplace_back());
  if (event == "warning") run->warnings.push_back(line.at("text").get<std::string>());
  if (event == "epoch") {
    from_json(line, run->epochs.emplace_back());
    if (line.contains("judgement")) from_json(line.at("judgement"), run->details);
  }
  if (event == "end") from_json(line, run->end);
}

std::uint64_t record_bytes(const RunRecord& run) {
  return run.steps.size() * sizeof(StepRecord) + run.epochs.size() * sizeof(EpochRecord) +
         run.warnings.size() * sizeof(std::string);
}

// Parses complete lines; returns the offset of the rest, an unfinished line of a killed or running
// process.
std::size_t add_lines(std::string_view text, std::uint64_t offset, RunRecord* run) {
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
    try {
      add_run_line(text.substr(begin, end - begin), run);
      if (record_bytes(*run) > kFreeRecordBytes + offset + end)
        throw std::invalid_argument("its lines are shorter than any that training writes");
    } catch (const std::exception& failure) {
      refuse("The line at byte " + std::to_string(offset + begin) +
             " was not written by a training run: " + fault_text(failure) + ".");
    }
  }
  return begin;
}

bool has_finished_epoch(const std::filesystem::path& path) {
  std::error_code fault;
  if (!std::filesystem::is_regular_file(path, fault)) return false;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(R"({"event":"epoch")")) return true;
  return false;
}

Error no_start() {
  return {ErrorCode::kInvalidDataset,
          "It has no \"start\" line: no training run wrote it, or the run has not started yet."};
}

class RunFile : public RunSink {
 public:
  explicit RunFile(const std::filesystem::path& path)
      : path_(path),
        replaces_(has_finished_epoch(path)),
        file_(replaces_ ? next_record(path) : path) {
    std::error_code fault;
    if (!replaces_) std::filesystem::remove(next_record(path), fault);  // of an earlier run
  }

  std::string_view name() const override { return kRunFileName; }

  void start(const RunStart& start) override { write("start", as_json(start)); }
  void step(const StepRecord& step) override {
    Json line = as_json(step);
    line["metrics"] = metrics_json(step_metrics(step));
    write("step", line);
  }
  void warning(const std::string& text) override { write("warning", {{"text", text}}); }
  void epoch(const EpochRecord& epoch, const ValidationDetails* details) override {
    Json line = as_json(epoch);
    line["metrics"] = metrics_json(epoch_metrics(epoch));
    if (details != nullptr) line["judgement"] = as_json(*details);
    write("epoch", line);
    if (replaces_) std::filesystem::rename(next_record(path_), path_);
    replaces_ = false;
  }
  void end(const RunRecord& run) override { write("end", as_json(run.end)); }

 private:
  void write(const char* event, const Json& fields) {
    Json line = {{"event", event}};
    line.update(fields);
    file_.append(json_text(line) + "\n");
  }

  const std::filesystem::path path_;
  bool replaces_;  // an earlier run's record, at the end of the first epoch
  AppendedFile file_;
};

Json short_side(int pixels) {
  return pixels > 0 ? Json(pixels) : Json();
}

// Of the run's first epoch.
Json valid_in_train_json(const RunRecord& run) {
  return run.epochs.empty() ? Json() : as_json(run.epochs.front().valid_in_train);
}

Json data_json(const RunRecord& run) {
  const DataRecord& data = run.start.data;
  Json counts = Json::object();
  for (std::size_t c = 0; c < data.classes.size(); ++c)
    counts[data.classes[c]] = {{"train", data.train_counts[c]}, {"valid", data.valid_counts[c]}};
  return {
      {"classes", data.classes},
      {"counts", counts},
      {"validation_images_in_training", valid_in_train_json(run)},
      {"image_size", {data.image_height, data.image_width}},
      {"resize_short_side", short_side(data.resize_short_side)},
      {"augment", data.augment},
      {"eval_size", {data.eval_height, data.eval_width}},
      {"eval_resize_short_side", short_side(data.eval_resize_short_side)},
      {"normalization", {{"name", data.normalization}, {"mean", data.mean}, {"std", data.std}}}};
}

Json communication_json(const std::optional<CommunicationTime>& time) {
  if (!time) return nullptr;
  return {{"summing_seconds", time->summing}, {"waiting_seconds", time->waiting}};
}

Json epoch_json(const EpochRecord& epoch) {
  return {{"epoch", epoch.epoch},
          {"learning_rate", epoch.learning_rate},
          {"train_images_per_second", epoch.train_images_per_second},
          {"train_loss", epoch.train.loss()},
          {"train_error", 1 - epoch.train.top1_accuracy()},
          {"valid_loss", epoch.valid.loss()},
          {"top1", epoch.valid.top1_accuracy()},
          {"top5", epoch.valid.top5_accuracy()},
          {"train_seconds", epoch.train_seconds},
          {"valid_seconds", epoch.valid_seconds},
          {"data_wait_seconds", epoch.data_wait_seconds},
          {"communication", communication_json(epoch.communication)}};
}

Json fault_json(const ImageFaultRecord& fault) {
  return {{"data_set", fault.data_set},
          {"file", fault.file},
          {"fault", fault.fault},
          {"used", fault.damaged}};
}

}  // namespace

std::unique_ptr<RunSink> make_run_file(const std::filesystem::path& path) {
  return std::make_unique<RunFile>(path);
}

std::filesystem::path next_record(const std::filesystem::path& path) {
  return path.string() + ".next";
}

bool is_record_in_use(const std::filesystem::path& path) {
  return AppendedFile::is_in_use(path) || AppendedFile::is_in_use(next_record(path));
}

RunRecord parse_run(std::string_view text) {
  RunRecord run;
  add_lines(text, 0, &run);
  if (run.start.time == 0) throw no_start();
  return run;
}

std::filesystem::path record_of(const std::filesystem::path& path) {
  std::error_code fault;
  return std::filesystem::is_directory(path, fault) ? path / kRunFileName : path;
}

RunRecord read_run(const std::filesystem::path& path) {
  const std::filesystem::path file = record_of(path);
  std::error_code fault;
  if (!std::filesystem::exists(file, fault) && !fault)
    refuse("'" + file.string() + "' does not exist: give the --log-path of a `kiln train` run." +
           did_you_mean_path(path));
  RunFollower follower(file);
  follower.read_news_of(file);
  if (!follower.has_begun()) refuse_as_record(file, no_start());
  return follower.run();
}

void refuse_records(const std::filesystem::path& output,
                    const std::vector<std::string>& log_paths) {
  for (const std::string& path : log_paths) {
    std::error_code none_there;
    if (std::filesystem::equivalent(output, record_of(path), none_there))
      throw Error(ErrorCode::kUserError,
                  "'" + output.string() +
                      "' is the record of a run, which the page would overwrite. Choose another "
                      "--output-path.");
  }
}

bool RunFollower::read_news() {
  std::error_code fault;
  const std::filesystem::path next = next_record(file_);
  return read_news_of(std::filesystem::exists(next, fault) ? next : file_);
}

bool RunFollower::read_news_of(const std::filesystem::path& record) {
  constexpr std::size_t kHead = 64;  // includes the start time
  std::error_code fault;
  const auto kind = std::filesystem::status(record, fault).type();
  if (kind == std::filesystem::file_type::not_found) return false;
  if (kind != std::filesystem::file_type::regular)
    refuse_unreadable(record, fault ? fault.value() : EINVAL);
  std::ifstream file(record, std::ios::binary);
  if (!file && errno == ENOENT) return false;  // the first epoch has just ended, and it was renamed
  if (!file) refuse_unreadable(record, errno);
  std::string head(kHead, '\0');
  file.read(head.data(), static_cast<std::streamsize>(kHead));
  head.resize(static_cast<std::size_t>(file.gcount()));
  if (!head.starts_with(head_)) {
    run_ = {};
    rest_.clear();
    read_ = 0;
  }
  head_ = std::move(head);
  file.clear();
  file.seekg(static_cast<std::streamoff>(read_));
  const std::uint64_t before = read_;
  try {
    while (take_piece(file)) {
    }
  } catch (const Error& error) {
    refuse_as_record(file_, error);
  }
  return read_ > before;
}

bool RunFollower::take_piece(std::istream& file) {
  const std::size_t old_rest = rest_.size();
  rest_.resize(old_rest + kPieceBytes);
  file.read(rest_.data() + old_rest, static_cast<std::streamsize>(kPieceBytes));
  const auto got = static_cast<std::size_t>(file.gcount());
  rest_.resize(old_rest + got);
  read_ += got;
  if (read_ > kMostBytes) refuse("It is larger than 4 GiB.");
  if (rest_.find('\n', old_rest) != std::string::npos)
    rest_.erase(0, add_lines(rest_, read_ - rest_.size(), &run_));
  if (rest_.size() > kMostLineBytes || (!rest_.empty() && rest_.front() != '{'))
    refuse("The line at byte " + std::to_string(read_ - rest_.size()) +
           " was not written by a training run.");
  return got == kPieceBytes;
}

std::string format_training_json(const RunRecord& run, const RunEnd& end) {
  Json epochs = Json::array();
  for (const EpochRecord& epoch : run.epochs) epochs.push_back(epoch_json(epoch));
  Json faults = Json::array();
  for (const ImageFaultRecord& fault : end.image_faults) faults.push_back(fault_json(fault));
  const std::string& stopped = end.stopped_early;
  const Json json = {{"started", run.start.time},
                     {"options", as_json(run.start.options)},
                     {"versions", as_json(run.start.versions)},
                     {"data", data_json(run)},
                     {"epochs", epochs},
                     {"saved_epoch", end.saved_epoch},
                     {"stopped_early", stopped.empty() ? Json(false) : Json(stopped)},
                     {"image_faults", faults},
                     {"start_to_first_step_seconds", end.start_to_first_step_seconds},
                     {"total_seconds", end.total_seconds},
                     {"peak_memory_bytes", end.peak_memory_bytes}};
  return json_text(json, 2) + "\n";
}

std::string pack_judged_images(const std::vector<JudgedImage>& images) {
  return json_text(as_json(images));
}

std::vector<JudgedImage> unpack_judged_images(const std::string& text) {
  std::vector<JudgedImage> images;
  from_json(parse_ordered_json(text, kMostLineValues), images);
  return images;
}

}  // namespace kiln
