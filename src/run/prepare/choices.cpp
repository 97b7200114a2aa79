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

void add_found_lines(const Settings& settings, TextPairs& plan) {
  for (const std::string_view name : options::kOwnLine)
    if (const Setting& setting = settings.of(name); setting.is_found())
      plan.emplace_back(name, setting.text + " (" + setting.reason + ")");
}

std::optional<Setting> found_weights(const std::string& given, const std::string& path) {
  const std::string shown = without_secrets(given);
  std::string reason = shown == given ? "" : "downloaded from " + shown;
  const std::string file = file_and_part(path).first;
  try {
    if (is_file(file)) reason += (reason.empty() ? "" : ", ") + ("SHA-256 " + sha256_of_file(file));
  } catch (const std::system_error&) {  // reading the weights will report why
  }
  if (reason.empty()) return {};
  return found_for_train(options::kWeights, shown == given ? given : path, reason);
}

OptionTexts texts_in_effect(const Settings& asked, const Settings& settings, int epochs) {
  Settings in_effect = asked;
  for (const std::string_view name : options::kRecordedAsFound)
    if (settings.of(name).is_found()) in_effect = in_effect.replaced(settings.of(name));
  if (epochs > 0) in_effect = in_effect.found(options::kEpochs, std::to_string(epochs), "");
  return in_effect.texts();
}

std::string config_text(const Settings& settings,
                        const std::function<bool(const Setting&)>& is_kept) {
  std::string text;
  for (const Setting& setting : settings) {
    const std::string &name = setting.option->name, &value = setting.text;
    if (setting.is_found()) {
      text += (value.empty() ? "# " + name + ": " : name + ": " + scalar(value) + "  # ") +
              printable(setting.reason) + "\n";
    } else if (setting.is_given() && is_kept(setting)) {
      const bool is_secret = value.find("?…") != value.npos;
      text += is_secret ? "# " + name + ": " + printable(value) +
                              ", give it again: the omitted part may be a secret\n"
                        : name + ": " + scalar(value) + "\n";
    }
  }
  return text;
}

std::string repeat_text(const Settings& settings, const std::string& why_not_equal) {
  const bool is_equal = why_not_equal.empty();
  return std::string(is_equal ? "# Reproduces this run bit for bit, with the same program, data "
                                "and kind of machine\n# (on a GPU, if both run with "
                                "--deterministic):\n"
                              : "# Repeats this run, but not bit for bit: ") +
         why_not_equal + (is_equal ? "" : ":\n") +
         "#   kiln train --config repeat.yaml --trained-model-path DIR --log-path LOGS\n"
         "# Paths are relative to the folder it was started in.\n" +
         config_text(settings,
                     [](const Setting& setting) { return !setting.option->is_for_one_run; });
}

std::unique_ptr<RunSink> make_repeat_file(const std::filesystem::path& path,
                                          std::function<std::string()> text) {
  return std::make_unique<RepeatFile>(path, std::move(text));
}

}  // namespace kiln
