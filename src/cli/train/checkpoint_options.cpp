// The options of `kiln train` for checkpoints, the parsing of times with units, and which options
// differ between a checkpoint and the run that resumes from it.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

const std::string kCheckpoints = "Checkpoints";

// What a number with a unit counts.
enum class Counted { kEpochs, kSteps, kTime };

struct Unit {
  std::string_view word;
  Counted counted;
  int seconds = 0;  // in one unit of kTime
};
constexpr std::array<Unit, 7> kUnits = {{
    {"epoch", Counted::kEpochs},
    {"epochs", Counted::kEpochs},
    {"step", Counted::kSteps},
    {"steps", Counted::kSteps},
    {"s", Counted::kTime, 1},
    {"min", Counted::kTime, 60},
    {"h", Counted::kTime, 3600},
}};

// Splits a text such as "30min" into its number and its unit.
struct Count {
  explicit Count(const std::string& item)
      : number(item, 0, std::min(item.find_first_not_of("0123456789"), item.size())),
        word(item, number.size()) {}

  bool is_zero() const { return number.find_first_not_of('0') == number.npos; }

  std::string number, word;  // either may be empty
};

const Unit* find_unit(const std::string& word) {
  const auto* const unit =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& one) { return one.word == word; });
  return unit == kUnits.end() ? nullptr : unit;
}

constexpr const char* kNotWhole =
    "but its numbers must be whole: use a smaller unit, such as 30min instead of 0.5h";

// Parses the value of --checkpoint-every.
class EveryReader {
 public:
  EveryReader(const Option& option, const std::string& where) : option_(option), where_(where) {}

  CheckpointEvery read(const std::string& text) {
    is_empty_ = text.empty();
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      take(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return every_;
  }

 private:
  [[noreturn]] void refuse(const std::string& item, const std::string& reason) const {
    std::string found = item.empty() ? " has an empty part" : " contains '" + excerpt(item) + "'";
    if (is_empty_) found = " is empty";
    throw Error(ErrorCode::kParameterParsing, where_ + found + ", " + reason + ".");
  }

  const Unit& unit_of(const std::string& item, const std::string& word) const {
    if (word.starts_with('.')) refuse(item, kNotWhole);
    if (const Unit* unit = find_unit(word)) return *unit;
    refuse(item,
           "but must be numbers with a unit, joined by commas, such as 1epoch,10min. The "
           "units are epoch, step, s, min and h");
  }

  void take(const std::string& item) {
    const Count count(item);
    if (!count.number.empty() && count.word.empty())
      refuse(item, "a number without a unit: write " + item + "epochs, " + item + "steps, " + item +
                       "s, " + item + "min or " + item + "h");
    const Unit& unit = unit_of(item, count.number.empty() ? item : count.word);
    if (count.is_zero())
      refuse(item,
             "but its numbers must be at least 1: write 1step for a checkpoint after every step; "
             "without --checkpoint-path none is written");
    std::string& earlier = seen_.at(static_cast<std::size_t>(unit.counted));
    if (!earlier.empty())
      refuse(item, "but also '" + earlier + "', which has the same unit: keep one of them");
    earlier = item;
    set(unit, integer_value(option_, count.number, where_));
  }

  void set(const Unit& unit, std::int64_t count) {
    if (unit.counted == Counted::kEpochs) every_.epochs = static_cast<int>(count);
    if (unit.counted == Counted::kSteps) every_.steps = count;
    if (unit.counted == Counted::kTime) every_.seconds = static_cast<double>(count) * unit.seconds;
  }

  const Option& option_;
  const std::string& where_;
  bool is_empty_ = false;
  CheckpointEvery every_ = {.epochs = 0, .steps = 0, .seconds = 0};
  std::array<std::string, 3> seen_;  // the item given for each of Counted; empty: none
};

ResumeChoice resume_choice(const std::string& word) {
  if (word == "never") return ResumeChoice::kNever;
  return word == "require" ? ResumeChoice::kRequire : ResumeChoice::kAuto;
}

// True if two texts of an option have the same value. Throws Error if one of them is invalid.
bool same_value(const Option& option, const std::string& a, const std::string& b) {
  if (a == b) return true;
  if (a.empty() || b.empty()) return false;
  switch (option.kind) {
    case ValueKind::kInteger:
    case ValueKind::kAutoOrInteger:
      return integer_value(option, a, "") == integer_value(option, b, "");
    case ValueKind::kNumber:
    case ValueKind::kNumberFrom:
      return number_value(option, a, "") == number_value(option, b, "");
    case ValueKind::kChoice:
      return choice_value(option, a, "") == choice_value(option, b, "");
    case ValueKind::kDuration:
      return duration_value(option, a, "") == duration_value(option, b, "");
    case ValueKind::kBoolean:
    case ValueKind::kSwitch:
      return boolean_value(a, "") == boolean_value(b, "");
    case ValueKind::kTrainingSize: {
      const ImageSizes x = image_sizes_value(option, a, ""), y = image_sizes_value(option, b, "");
      return x.first == y.first && x.last == y.last;
    }
    case ValueKind::kCropSize: {
      const CropSize x = crop_size_value(option, a, ""), y = crop_size_value(option, b, "");
      return x.side == y.side && x.is_larger == y.is_larger;
    }
    case ValueKind::kAugment:
      return augment_value(option, a, "") == augment_value(option, b, "");
    case ValueKind::kChoiceOrNumber: {
      const RateScaling x = rate_scaling_value(option, a, ""),
                        y = rate_scaling_value(option, b, "");
      return x.rule == y.rule && x.factor == y.factor;
    }
    case ValueKind::kCountedChoice:
      return exchange_value(option, a, "") == exchange_value(option, b, "");
    default:
      return false;
  }
}

}  // namespace

bool is_same_setting(const Option& option, const std::string& a, const std::string& b) {
  try {
    return same_value(option, a, b);
  } catch (const Error&) {  // a text from another version of the program
    return false;
  }
}

CheckpointEvery every_value(const Option& option, const std::string& text,
                            const std::string& where) {
  return EveryReader(option, where).read(text);
}

double duration_value(const Option& option, const std::string& text, const std::string& where) {
  const Count count(text);
  const auto refuse = [&](const std::string& reason) {
    throw Error(ErrorCode::kParameterParsing,
                where + " is " + (text.empty() ? "empty" : "'" + excerpt(text) + "'") + ", " +
                    reason + ".");
  };
  if (!count.number.empty() && count.word.empty())
    refuse("a number without a unit: write " + text + "s, " + text + "min or " + text + "h");
  if (count.word.starts_with('.')) refuse(kNotWhole);
  const Unit* unit = find_unit(count.word);
  if (count.number.empty() || unit == nullptr || unit->counted != Counted::kTime)
    refuse("but must be a number with a unit, such as 30min. The units are s, min and h");
  if (count.is_zero()) refuse("but must be at least 1s");
  return static_cast<double>(integer_value(option, count.number, where)) * unit->seconds;
}

std::vector<TrainOption> checkpoint_options() {
  const Option every = {.name = "checkpoint-every",
                        .value_name = "LIST",
                        .default_text = "1epoch,10min",
                        .unit = "",
                        .group = kCheckpoints,
                        .help =
                            "When to write a checkpoint: intervals with a unit (epoch, step, s, "
                            "min or h), separated by commas; whichever comes first.",
                        .kind = ValueKind::kEvery,
                        .minimum = 1,
                        .maximum = 1000 * kMillion};
  return {
      {Effect::kFree, optional_path("checkpoint-path", "DIR", "", kCheckpoints,
                                    "Folder for checkpoints, from which the same command resumes "
                                    "after a stop; the newest two are kept. If omitted, none are "
                                    "written.")},
      {Effect::kFree, every},
      {Effect::kFree,
       choice(
           "resume", {"auto", "never", "require"}, kCheckpoints,
           "auto: resume from the newest checkpoint, if there is one. never: start over; old "
           "checkpoints are removed once a new one is written. require: fail if there is none.")},
  };
}

CheckpointConfig bind_checkpoint(Binder& binder) {
  CheckpointConfig config;
  config.path = binder.path("checkpoint-path");
  config.every = binder.every("checkpoint-every");
  config.resume = resume_choice(binder.choice("resume"));
  if (binder.given("checkpoint-path")) return config;
  if (config.resume == ResumeChoice::kRequire)
    binder.fault("resume", ErrorCode::kParameterParsing,
                 "--resume require needs a folder with checkpoints: add --checkpoint-path DIR.");
  if (binder.given("checkpoint-every"))
    binder.fault("checkpoint-every", ErrorCode::kParameterParsing,
                 "--checkpoint-every needs a folder for checkpoints: add --checkpoint-path DIR.");
  return config;
}

std::vector<ChangedOption> changed_options(const OptionTexts& before, const OptionTexts& now) {
  std::vector<ChangedOption> changed;
  for (const Option& option : find_command("train")->options) {
    const auto text_in = [&](const OptionTexts& texts) {
      const auto found = std::find_if(texts.begin(), texts.end(),
                                      [&](const auto& text) { return text.first == option.name; });
      return found == texts.end() ? option.default_text : found->second;
    };
    const std::string old_text = text_in(before), new_text = text_in(now);
    if (is_same_setting(option, old_text, new_text)) continue;
    changed.push_back({option.name, old_text, new_text, option.effect.value_or(Effect::kResult)});
  }
  return changed;
}

}  // namespace kiln
