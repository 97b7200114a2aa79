#include "run/prepare/choices.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "base/url.h"
#include "cli/options.h"
#include "model/weights/sha256.h"
#include "run/prepare/prepare.h"
#include "run/time_limit.h"

namespace kiln {
namespace {

// `text` as a YAML scalar that is read back as text: plain if nothing in it has a special meaning,
// otherwise quoted.
std::string scalar(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/+-";
  const bool is_plain = !text.empty() && text.front() != '-' && text != "null" && text != "Null" &&
                        text != "NULL" && text.find_first_not_of(kPlain) == text.npos;
  if (is_plain) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n')
      quoted += "\\n";
    else if (c == '\t')
      quoted += "\\t";
    else if (static_cast<unsigned char>(c) < ' ')
      quoted += formatted("\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      quoted += c;
  }
  return quoted + '"';
}

const Choice* find_choice(const std::vector<Choice>& choices, const std::string& option) {
  const auto found = std::find_if(choices.begin(), choices.end(),
                                  [&](const Choice& one) { return one.option == option; });
  return found == choices.end() ? nullptr : &*found;
}

void add_size(TrainingJob& job) {
  if (job.config.data.image_size.last > 0) return;
  const TransformSpec& pixels = job.inputs.pixels;
  const std::string side = std::to_string(pixels.output.height);
  // The common size of all images cannot be given as --image-size: it need not be square, and
  // nothing is resized.
  if (pixels.short_side == 0)
    choose(job.choices, {"image-size", "",
                         formatted("%dx%d, ", pixels.output.width, pixels.output.height) +
                             job.inputs.size_reason,
                         /*has_line=*/true});
  else
    choose(job.choices, {"image-size", side, job.inputs.size_reason, /*has_line=*/true});
}

// A normalization that comes with the weights has no name that the option accepts.
void add_normalization(TrainingJob& job) {
  const TrainingInputs& inputs = job.inputs;
  const bool has_word =
      inputs.normalization_name == "half" || inputs.normalization_name == "imagenet";
  const bool pretrained = inputs.untrained.spec.pretrained;
  choose(job.choices, {"normalization", has_word ? inputs.normalization_name : "",
                       !inputs.normalization_reason.empty() ? inputs.normalization_reason
                       : pretrained                         ? "set by the pretrained weights"
                                                            : "the weights are not pretrained",
                       /*has_line=*/true});
}

void add_machine(TrainingJob& job) {
  World& world = job.world;
  const RanksConfig& config = job.config.ranks;
  if (config.device == DeviceChoice::kAuto)
    choose(job.choices, {"device", job.device.is_cuda ? "cuda" : "cpu", job.device.description,
                         /*has_line=*/true});
  const std::vector<int> threads = world.gather(at::get_num_threads());
  const bool equal =
      std::adjacent_find(threads.begin(), threads.end(), std::not_equal_to<>()) == threads.end();
  if (config.threads == 0)
    choose(job.choices, {"threads", equal ? std::to_string(threads.front()) : "",
                         equal ? "one per processor" : "differs between ranks",
                         /*has_line=*/true});
  if (world.size() == 1 || (config.launch && *config.launch > 0)) return;
  const bool on_one_host = world.local_size() == world.size();
  const std::string count = std::to_string(world.size());
  choose(job.choices, {"ranks", on_one_host ? count : "",
                       on_one_host ? "the processes of this run" : count + " on several hosts",
                       /*has_line=*/true});
}

// The file of an earlier run is kept, like its record, until this run has finished an epoch.
class RepeatFile : public RunSink {
 public:
  RepeatFile(std::filesystem::path path, std::function<std::string()> text)
      : path_(std::move(path)), text_(std::move(text)) {}

  std::string_view name() const override { return kRepeatName; }
  void start(const RunStart& /*start*/) override { begin(/*has_epoch=*/false); }
  void resume(const RunRecord& so_far) override { begin(!so_far.epochs.empty()); }
  void planned(const PlannedLength& /*length*/) override { write(); }
  void epoch(const EpochRecord& /*epoch*/, const ValidationDetails* /*details*/) override {
    is_own_ = true;
    write();
  }
  void end(const RunRecord& /*run*/) override { write(); }

 private:
  void begin(bool has_epoch) {
    std::error_code fault;
    is_own_ = has_epoch || !std::filesystem::exists(path_, fault);
    write();
  }
  void write() {
    if (!is_own_) return;
    std::string text = text_();
    if (text == written_) return;
    write_file_durably(path_, text);
    written_ = std::move(text);
  }

  const std::filesystem::path path_;
  const std::function<std::string()> text_;
  std::string written_;
  bool is_own_ = false;
};

}  // namespace

void choose(std::vector<Choice>& choices, Choice choice) {
  std::erase_if(choices, [&](const Choice& earlier) { return earlier.option == choice.option; });
  choices.push_back(std::move(choice));
}

void add_choice_lines(const std::vector<Choice>& choices, TextPairs& plan) {
  for (const Choice& choice : choices)
    if (!choice.has_line)
      plan.emplace_back(choice.option, choice.value + " (" + choice.reason + ")");
}

void add_choices(TrainingJob& job) {
  const TrainConfig& config = job.config;
  add_size(job);
  if (config.data.normalization == NormalizationChoice::kAuto) add_normalization(job);
  if (!config.optimization.precision)
    choose(job.choices, {"precision", precision_name(job.precision.precision), job.precision.reason,
                         /*has_line=*/true});
  add_machine(job);
  if (time_limit_of(job) > 0)
    choose(job.choices, {"epochs", std::to_string(job.asked_epochs()),
                         "maximum: --time-limit decides after the first epoch", /*has_line=*/true});
}

void add_weights_choice(const std::string& given, const std::string& path, TrainingJob& job) {
  const std::string shown = without_secrets(given);
  std::string reason = shown == given ? "" : "downloaded from " + shown;
  const std::string file = file_and_part(path).first;
  std::error_code fault;
  try {
    if (std::filesystem::is_regular_file(file, fault))
      reason += (reason.empty() ? "" : ", ") + ("SHA-256 " + sha256_of_file(file));
  } catch (const std::system_error&) {  // reading the weights will report why
  }
  if (!reason.empty())
    choose(job.choices, {"weights", shown == given ? given : path, reason, /*has_line=*/true});
}

OptionTexts options_in_effect(const TrainingJob& job) {
  OptionTexts options = job.config.effective_options;
  for (auto& [name, text] : options)
    for (const char* settled : {"auto", "augment", "learning-rate"})
      if (const Choice* choice = find_choice(job.choices, name); choice && name == settled)
        text = choice->value;
  return options;
}

std::string config_text(const TrainConfig& config, const std::vector<Choice>& choices) {
  std::string text;
  const CommandInfo& command = *find_command("train");
  for (const Option& option : command.options) {
    const Choice* choice = find_choice(choices, option.name);
    const auto given =
        std::find_if(config.effective_options.begin(), config.effective_options.end(),
                     [&](const auto& one) { return one.first == option.name; });
    if (choice != nullptr) {
      text += (choice->value.empty() ? "# " + option.name + ": "
                                     : option.name + ": " + scalar(choice->value) + "  # ") +
              printable(choice->reason) + "\n";
    } else if (given != config.effective_options.end() && given->second != option.default_text &&
               option.is_repeated) {
      const bool is_secret =
          option.name == "weights" && given->second != config.data.network.weights;
      text += is_secret ? "# weights: " + printable(given->second) +
                              ", give it again: the omitted part may be a secret\n"
                        : option.name + ": " + scalar(given->second) + "\n";
    }
  }
  return text;
}

std::string repeat_text(const TrainConfig& config, const std::vector<Choice>& choices) {
  return "# Reproduces this run bit for bit, with the same program, data and kind of machine:\n"
         "#   kiln train --config repeat.yaml --trained-model-path DIR\n"
         "# (on a GPU, if both run with --deterministic). Paths are relative to the folder it was "
         "started in.\n" +
         config_text(config, choices);
}

std::unique_ptr<RunSink> make_repeat_file(const std::filesystem::path& path,
                                          std::function<std::string()> text) {
  return std::make_unique<RepeatFile>(path, std::move(text));
}

}  // namespace kiln
