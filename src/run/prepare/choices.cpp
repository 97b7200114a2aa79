#include "run/prepare/choices.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "base/url.h"
#include "cli/options.h"
#include "model/weights/fetch_file.h"
#include "store/state_dict_file.h"

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
  const auto found = std::ranges::find(choices, option, &Choice::option);
  return found == choices.end() ? nullptr : &*found;
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
    is_own_ = has_epoch || !is_there(path_);
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

std::optional<Choice> weights_choice(const std::string& given, const std::string& path) {
  const std::string shown = without_secrets(given);
  std::string reason = shown == given ? "" : "downloaded from " + shown;
  const std::string file = file_and_part(path).first;
  try {
    if (is_file(file)) reason += (reason.empty() ? "" : ", ") + ("SHA-256 " + sha256_of_file(file));
  } catch (const std::system_error&) {  // reading the weights will report why
  }
  if (reason.empty()) return {};
  return Choice{"weights", shown == given ? given : path, reason, /*has_line=*/true};
}

void follow_length(TrainConfig& config, std::int64_t steps_per_epoch, int kept_side,
                   int num_ranks) {
  const OptimizationConfig& asked = config.optimization;
  const auto in_epoch = static_cast<double>(std::max<std::int64_t>(1, steps_per_epoch));
  double epochs = asked.epochs;
  if (!asked.epochs_given && asked.steps > 0) epochs = static_cast<double>(asked.steps) / in_epoch;
  if (asked.time_limit_s > 0) epochs = std::min<double>(epochs, kUsualEpochsInTime);
  const ExchangePlan& exchange = config.ranks.exchange;
  // Either one step at a larger rate, or a step of each.
  const double of_ranks = exchange.kind->sums_ranks ? asked.lr_scaling.of(num_ranks)
                                                    : exchange.num_training_ranks(num_ranks);
  for (const auto& [option, text] :
       modern_by_length(asked, epochs, epochs * in_epoch, kept_side, of_ranks))
    if (std::ranges::count(asked.recipe.by_length, option) > 0 &&
        (option != "mixup" || asked.batch_size % 2 == 0))
      set_option(config, option, text);
}

OptionTexts options_in_effect(OptionTexts options, const std::vector<Choice>& choices, int epochs) {
  for (auto& [name, text] : options) {
    for (const char* settled : {"auto", "augment", "learning-rate"})
      if (const Choice* choice = find_choice(choices, name); choice && name == settled)
        text = choice->value;
    if (name == "epochs" && epochs > 0) text = std::to_string(epochs);
  }
  return options;
}

OptionTexts given_options(const TrainConfig& config) {
  OptionTexts options = config.effective_options;
  std::erase_if(options, [&](const auto& option) {
    return std::ranges::count(config.given, option.first) == 0;
  });
  return options;
}

RepeatedRun repeated_run(const TrainConfig& config, std::vector<Choice> choices) {
  RepeatedRun run{given_options(config), std::move(choices)};
  std::erase_if(run.options, [command = find_command("train")](const auto& option) {
    return find_option(*command, option.first)->is_for_one_run;
  });
  return run;
}

std::string config_text(const RepeatedRun& run) {
  std::string text;
  const CommandInfo& command = *find_command("train");
  for (const Option& option : command.options) {
    const Choice* choice = find_choice(run.choices, option.name);
    const auto given = std::ranges::find(run.options, option.name, &OptionTexts::value_type::first);
    if (choice != nullptr) {
      text += (choice->value.empty() ? "# " + option.name + ": "
                                     : option.name + ": " + scalar(choice->value) + "  # ") +
              printable(choice->reason) + "\n";
    } else if (given != run.options.end()) {
      const bool is_secret = given->second.find("?…") != given->second.npos;
      text += is_secret ? "# " + option.name + ": " + printable(given->second) +
                              ", give it again: the omitted part may be a secret\n"
                        : option.name + ": " + scalar(given->second) + "\n";
    }
  }
  return text;
}

std::string repeat_text(const RepeatedRun& run) {
  const bool is_equal = run.why_not_equal.empty();
  return std::string(is_equal ? "# Reproduces this run bit for bit, with the same program, data "
                                "and kind of machine\n# (on a GPU, if both run with "
                                "--deterministic):\n"
                              : "# Repeats this run, but not bit for bit: ") +
         run.why_not_equal + (is_equal ? "" : ":\n") +
         "#   kiln train --config repeat.yaml --trained-model-path DIR --log-path LOGS\n"
         "# Paths are relative to the folder it was started in.\n" +
         config_text(run);
}

std::unique_ptr<RunSink> make_repeat_file(const std::filesystem::path& path,
                                          std::function<std::string()> text) {
  return std::make_unique<RepeatFile>(path, std::move(text));
}

}  // namespace kiln
