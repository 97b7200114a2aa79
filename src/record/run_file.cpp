#include "record/run_file.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <unordered_map>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "record/picture_file.h"
#include "record/run_json.h"
#include "record/run_summary.h"

namespace fs = std::filesystem;

namespace kiln {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{4} << 30;
constexpr std::size_t kPieceBytes = 1 << 20;  // per read
constexpr std::size_t kMaxLineBytes = 256 << 20;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kInvalidDataset, what);
}

[[noreturn]] void refuse_unreadable(const fs::path& file, int error) {
  refuse("'" + file.string() + "' cannot be read: " + system_words(error) +
         ". Check that it is a file, and its permissions.");
}

[[noreturn]] void refuse_as_record(const fs::path& file, const Error& error) {
  refuse("'" + file.string() + "' is not a run record. " + error.what());
}

constexpr std::size_t kMaxLineValues = 20'000'000;    // 4 per cell of the largest confusion matrix
constexpr std::uint64_t kFreeRecordBytes = 16 << 20;  // beyond the bytes of the file

Json metrics_json(const std::vector<Metric>& metrics) {
  Json object = Json::object();
  for (const Metric& metric : metrics) object[metric.name] = as_json(metric.value);
  return object;
}

std::string line_of(const char* event, const Json& fields) {
  Json line = {{"event", event}};
  line.update(fields);
  return json_text(line) + "\n";
}

bool is_line_of(std::string_view line, const std::string& event) {
  return line.starts_with(R"({"event":")" + event + '"');
}

// Returns what is wrong with a line, as a clause.
std::string fault_text(const std::exception& failure) {
  if (dynamic_cast<const JsonFault*>(&failure) != nullptr)
    return std::string("it ") + failure.what();
  if (dynamic_cast<const Json::exception*>(&failure) != nullptr)
    return "a field is missing or has the wrong type";
  return failure.what();
}

// Adds a line to the run and returns its event. Ignores unknown events, those of newer versions.
std::string add_run_line(std::string_view text, RunRecord* run) {
  const Json line = parse_ordered_json(text, kMaxLineValues);
  auto event = line.at("event").get<std::string>();
  if (event == "start") {
    *run = {};
    from_json(line, run->start);
  }
  if (event == "length") {
    PlannedLength length;
    from_json(line, length);
    add_length(run->start, length);
  }
  if (event == "step") {  // the newest is always there, others as is_recorded() says
    std::vector<StepRecord>& steps = run->steps;
    StepRecord step;
    from_json(line, step);
    if (steps.size() > 1 && !is_recorded(steps.back(), steps[steps.size() - 2])) steps.pop_back();
    steps.push_back(step);
  }
  if (event == "warning") run->warnings.push_back(line.at("text").get<std::string>());
  if (event == "epoch") {
    from_json(line, run->epochs.emplace_back());
    if (line.contains("judgement")) from_json(line.at("judgement"), run->details);
  }
  if (event == "resume") from_json(line, run->interruptions.emplace_back());
  if (event == "sink")
    run->sink_states.emplace_back(line.at("name").get<std::string>(),
                                  line.at("state").get<std::string>());
  if (event == "end" || event == "usage") from_json(line, run->end);
  return event;
}

std::uint64_t record_bytes(const RunRecord& run) {
  return run.steps.size() * sizeof(StepRecord) + run.epochs.size() * sizeof(EpochRecord) +
         run.warnings.size() * sizeof(std::string) +
         run.interruptions.size() * sizeof(Interruption) +
         run.sink_states.size() * sizeof(TextPairs::value_type);
}

// Calls `visit` with the offset and text of each complete line. Returns the offset after them.
template <typename Visit>
std::size_t for_each_line(std::string_view text, Visit&& visit) {
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1)
    visit(begin, text.substr(begin, end - begin));
  return begin;
}

// Adds the complete lines of `text`, which begins at `offset` of a file, to the run. Returns the
// offset of the incomplete last line that a killed or running process may leave.
std::size_t add_run_lines(std::string_view text, std::uint64_t offset, RunRecord* run) {
  return for_each_line(text, [&](std::size_t begin, std::string_view line) {
    try {
      add_run_line(line, run);
      if (record_bytes(*run) > kFreeRecordBytes + offset + begin + line.size())
        throw std::invalid_argument("its lines are too short for a training run");
    } catch (const std::exception& failure) {
      refuse("The line at byte " + std::to_string(offset + begin) +
             " was not written by a training run: " + fault_text(failure) + ".");
    }
  });
}

void require_start(const RunRecord& run) {
  if (run.start.time == 0)
    refuse("It has no \"start\" line: it is not a run record, or the run has not started yet.");
}

// True if `record` can be read and is that of the run that began at `start_time`.
bool is_of_run(const fs::path& record, double start_time) try {
  if (!is_file(record)) return false;
  std::ifstream file(record, std::ios::binary);
  std::string line;
  return std::getline(file, line) && parse_run(line + "\n").start.time == start_time;
} catch (const Error&) {
  return false;
}

class RunFile : public RunSink {
 public:
  explicit RunFile(fs::path path) : path_(std::move(path)) {}

  std::string_view name() const override { return kRunFileName; }

  void start(const RunStart& start) override {
    started_ = start.time;
    replaces_ = holds_other_run(path_, start.time);
    file_.emplace(own_path());
    remove_next();
    file_->append(run_line(start));
  }
  // Replaces the old record only once the new one, cut back to the checkpoint, is complete.
  void resume(const RunRecord& so_far) override {
    started_ = so_far.start.time;
    replaces_ = so_far.epochs.empty() && holds_other_run(path_, so_far.start.time);
    if (!so_far.steps.empty()) last_step_ = so_far.steps.back();
    write_file_durably(own_path(), so_far.text);
    file_.emplace(own_path(), AppendedFile::Begin::kAtEnd);
    remove_next();
  }
  void planned(const PlannedLength& length) override { file_->append(run_line(length)); }
  void step(const StepRecord& step) override {
    if (!is_recorded(step, last_step_)) return;
    file_->append(run_line(step));
    last_step_ = step;
  }
  void warning(const std::string& text) override { file_->append(run_line(text)); }
  void epoch(const EpochRecord& epoch, const ValidationDetails* details) override {
    file_->append(run_line(epoch, details));
    if (replaces_) fs::rename(next_record(path_), path_);
    replaces_ = false;
    if (details != nullptr)
      write_file_durably(path_.parent_path() / kPicturesName, picture_file(started_, *details));
  }
  void pictures(const RunRecord& run) override {
    write_file_durably(path_.parent_path() / kPicturesName, picture_file(started_, run.details));
  }
  void end(const RunRecord& run) override { file_->append(run_line(run.end)); }

 private:
  fs::path own_path() const { return replaces_ ? next_record(path_) : path_; }
  void remove_next() const {
    if (!replaces_) remove_quietly(next_record(path_));  // left by an earlier run
  }

  const fs::path path_;
  double started_ = 0;
  std::optional<StepRecord> last_step_;
  bool replaces_ = false;  // will replace an earlier run's record after the first epoch
  std::optional<AppendedFile> file_;
};

Json data_json(const RunRecord& run) {
  const DataRecord& data = run.start.data;
  Json::object_t counts;
  std::unordered_map<std::string_view, std::size_t> places;  // a lookup in `counts` is linear
  for (std::size_t c = 0; c < data.classes.size(); ++c) {
    const bool is_counted = c < data.train_counts.size();
    const auto [place, is_new] = places.emplace(data.classes[c], counts.size());
    if (is_new) counts.push_back({data.classes[c], Json()});
    counts.data()[place->second].second = {
        {"train", is_counted ? Json(data.train_counts[c]) : Json()},
        {"valid", data.valid_counts[c]}};
  }
  Json json = Json::object();
  if (!data.words.task.empty()) json["task"] = data.words.task;
  const auto short_side = [](int pixels) { return pixels > 0 ? Json(pixels) : Json(); };
  json.update(
      {{"classes", data.classes},
       {"counts", counts},
       {"validation_images_in_training",
        run.epochs.empty() ? Json() : as_json(run.epochs.front().valid_in_train)},
       {"image_size", {data.image_height, data.image_width}},
       {"resize_short_side", short_side(data.resize_short_side)},
       {"augment", data.augment},
       {"eval_size", {data.eval_height, data.eval_width}},
       {"eval_resize_short_side", short_side(data.eval_resize_short_side)},
       {"fit", data.fit},
       {"cut_away", as_json(data.cut_away)},
       {"normalization", {{"name", data.normalization}, {"mean", data.mean}, {"std", data.std}}}});
  return json;
}

}  // namespace

Json epoch_json(const EpochRecord& epoch) {
  const auto& communication = epoch.communication;
  Json json = {{"epoch", epoch.epoch},
               {"learning_rate", epoch.learning_rate},
               {"train_images_per_second", epoch.train_images_per_second},
               {"train_loss", epoch.train.loss()},
               {"train_error", 1 - epoch.train.top1_accuracy()},
               {"valid_loss", epoch.valid.loss()}};
  for (const Figure& figure : figures_of(epoch))
    json[figure.name] = std::isnan(figure.value) ? Json() : Json(figure.value);
  json.update({{"train_seconds", epoch.train_seconds},
               {"valid_seconds", epoch.valid_seconds},
               {"data_wait_seconds", epoch.data_wait_seconds},
               {"communication", communication ? Json{{"summing_seconds", communication->summing},
                                                      {"waiting_seconds", communication->waiting}}
                                               : Json()},
               {"skipped_steps", as_json(epoch.skipped_steps)}});
  return json;
}

std::string run_line(const RunStart& start) {
  return line_of("start", as_json(start));
}

std::string run_line(const PlannedLength& length) {
  return line_of("length", as_json(length));
}

std::string run_line(const StepRecord& step) {
  Json line = as_json(step);
  line["metrics"] = metrics_json(step_metrics(step));
  return line_of("step", line);
}

std::string run_line(const std::string& warning) {
  return line_of("warning", {{"text", warning}});
}

std::string run_line(const EpochRecord& epoch, const ValidationDetails* details) {
  Json line = as_json(epoch);
  line["metrics"] = metrics_json(epoch_metrics(epoch));
  if (details != nullptr) line["judgement"] = as_json(*details);
  return line_of("epoch", line);
}

std::string run_line(const RunEnd& end) {
  return line_of("end", as_json(end));
}

std::string usage_line(const RunEnd& so_far) {
  return line_of("usage", {{"saved_epoch", so_far.saved_epoch},
                           {"start_to_first_step_seconds", so_far.start_to_first_step_seconds},
                           {"total_seconds", so_far.total_seconds},
                           {"peak_memory_bytes", so_far.peak_memory_bytes},
                           {"peak_device_bytes", so_far.peak_device_bytes}});
}

std::string state_line(const std::string& sink, const std::string& state) {
  return line_of("sink", {{"name", sink}, {"state", state}});
}

std::string resumed_text(const RunStart& start, std::string_view record_text,
                         const Interruption& interruption) {
  std::string text = run_line(start);
  for_each_line(record_text, [&](std::size_t /*offset*/, std::string_view line) {
    for (const char* event : {"start", "usage", "sink"})
      if (is_line_of(line, event)) return;
    text.append(line).append("\n");
  });
  return text + line_of("resume", as_json(interruption));
}

RunRecord parse_run(std::string_view text) {
  RunRecord run;
  add_run_lines(text, 0, &run);
  require_start(run);
  return run;
}

void add_length(RunStart& start, const PlannedLength& length) {
  start.num_epochs = length.num_epochs;
  for (auto& [label, text] : start.plan)
    if (label == kTimeLimitLabel) {
      text = length.reason;
      return;
    }
  start.plan.emplace_back(kTimeLimitLabel, length.reason);
}

void retell(std::string_view text, RunSink& sink) {
  for_each_line(text, [&](std::size_t /*offset*/, std::string_view line) {
    RunRecord one;
    const std::string event = add_run_line(line, &one);
    if (event == "start") sink.start(one.start);
    if (event == "step") sink.step(one.steps.back());
    if (event == "warning") sink.warning(one.warnings.back());
    if (event == "epoch")
      sink.epoch(one.epochs.back(), one.details.epoch > 0 ? &one.details : nullptr);
  });
}

std::unique_ptr<RunSink> make_run_file(const fs::path& path) {
  return std::make_unique<RunFile>(path);
}

bool holds_other_run(const fs::path& path, double started) {
  if (!is_file(path)) return false;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);)
    if (is_line_of(line, "epoch")) return !is_of_run(path, started);
  return false;
}

fs::path next_record(const fs::path& path) {
  return path.string() + ".next";
}

fs::path record_of(const fs::path& path) {
  if (!is_folder(path)) return path;
  const fs::path record = path / kRunFileName;
  const bool is_of_run =
      !is_there(record) && !is_there(next_record(record)) && is_folder(path / kLogsOfRun);
  return is_of_run ? path / kLogsOfRun / kRunFileName : record;
}

fs::path model_of(const fs::path& path) {
  const fs::path model = path / kModelOfRun;  // a file, in a model directory
  const bool is_of_run =
      is_folder(model) && (is_folder(path / kLogsOfRun) || is_folder(path / kCheckpointsOfRun));
  return is_of_run ? model : path;
}

RunRecord read_run(const fs::path& path) {
  const fs::path file = record_of(path);
  if (type_at(file) == fs::file_type::not_found)
    refuse("'" + file.string() + "' does not exist: give the --log-path of a `kiln train` run." +
           did_you_mean_path(path));
  RunFollower follower(file);
  follower.read_news();
  try {
    require_start(follower.run());
  } catch (const Error& error) {
    refuse_as_record(file, error);
  }
  return follower.run();
}

std::optional<RunRecord> find_record(const fs::path& path, double start_time) {
  for (const fs::path& file : {path, next_record(path)}) {
    if (!is_of_run(file, start_time)) continue;
    try {
      return read_run(file);
    } catch (const Error&) {
    }
  }
  return {};
}

void add_lost_work(const std::optional<RunRecord>& old, Interruption* interruption) {
  if (!old) return;
  const long long steps = old->start.steps_per_epoch;
  long long done = old->steps.empty() ? 0 : global_step(old->steps.back());
  if (!old->epochs.empty()) done = std::max(done, old->epochs.back().epoch * steps);
  const long long kept = (interruption->epoch - 1) * steps + interruption->step;
  interruption->last_seen = last_time(*old);
  interruption->lost_steps = std::max(0LL, done - kept);
  interruption->lost_seconds =
      std::max(0.0, interruption->last_seen - interruption->checkpoint_time);
}

void refuse_records(const fs::path& output, const std::vector<std::string>& log_paths) {
  for (const std::string& path : log_paths) {
    std::error_code none_there;
    if (fs::equivalent(output, record_of(path), none_there))
      throw Error(
          ErrorCode::kUserError,
          "'" + output.string() +
              "' is a run record, which the page would overwrite. Choose another --output-path.");
  }
}

bool RunFollower::read_news() {
  std::error_code fault;
  const auto kind = fs::status(file_, fault).type();
  if (kind == fs::file_type::not_found) return false;
  if (kind != fs::file_type::regular) refuse_unreadable(file_, fault ? fault.value() : EINVAL);
  std::ifstream file(file_, std::ios::binary);
  if (!file) refuse_unreadable(file_, errno);
  file.seekg(static_cast<std::streamoff>(read_));
  const std::uint64_t before = read_;
  try {
    while (read_piece(file)) {
    }
  } catch (const Error& error) {
    refuse_as_record(file_, error);
  }
  return read_ > before;
}

bool RunFollower::read_piece(std::istream& file) {
  const std::size_t old_rest = rest_.size();
  rest_.resize(old_rest + kPieceBytes);
  file.read(rest_.data() + old_rest, static_cast<std::streamsize>(kPieceBytes));
  const auto got = static_cast<std::size_t>(file.gcount());
  rest_.resize(old_rest + got);
  read_ += got;
  if (read_ > kMaxBytes) refuse("It is larger than 4 GiB.");
  if (rest_.find('\n', old_rest) != std::string::npos)
    rest_.erase(0, add_run_lines(rest_, read_ - rest_.size(), &run_));
  if (rest_.size() > kMaxLineBytes || (!rest_.empty() && rest_.front() != '{'))
    refuse("The line at byte " + std::to_string(read_ - rest_.size()) +
           " was not written by a training run.");
  return got == kPieceBytes;
}

std::string format_training_json(const RunRecord& run, const RunEnd& end) {
  const std::string& stopped = end.stopped_early;
  Json json = {{"started", run.start.time},
               {"options", as_json(run.start.options)},
               {"versions", as_json(run.start.versions)},
               {"precision", run.start.precision},
               {"precision_reason", run.start.precision_reason},
               {"data", data_json(run)},
               {"epochs", list_json(run.epochs, epoch_json)},
               {"saved_epoch", end.saved_epoch},
               {"temperature", run.details.calibration.temperature},
               {"stopped_early", stopped.empty() ? Json(false) : Json(stopped)},
               {"image_faults", as_json(end.image_faults)},
               {"start_to_first_step_seconds", end.start_to_first_step_seconds},
               {"total_seconds", end.total_seconds},
               {"peak_memory_bytes", end.peak_memory_bytes}};
  if (!end.validation_fingerprint.empty())
    json["validation_fingerprint"] = end.validation_fingerprint;
  if (end.automatic) json["automatic"] = as_json(*end.automatic);
  if (const OutOfFoldRecord& judged = run.details.out_of_fold; judged.folds > 0)
    json["out_of_fold"] = as_json(judged);
  return json_text(json, 2) + "\n";
}

}  // namespace kiln
