// The words of other training programs, and the line of Kiln that stands for a line of theirs.
#include <algorithm>
#include <optional>
#include <sstream>

#include "base/text.h"
#include "cli/rows.h"
#include "model/catalogue.h"

namespace kiln {
namespace {

// Words of other programs (docs/coming-from.md) for an option of Kiln. The first row of a word that
// has an option of the command is used.
struct ForeignWords {
  const char* words;   // one that ends in = takes a value, whatever that looks like
  const char* option;  // empty: Kiln has none
  // Empty: the word's own value. X: X, unless the word has a value. =X: X in any case. G=X…: X if
  // the word's value, or the first of several, is G; there is nothing for another. Without an
  // option: what Kiln does about it; may be empty.
  const char* value = "";
  const char* commands = "";  // those that the row is for; empty: all
};

constexpr const char* kNameInProject = "experiment name";  // the folder is in --project's
constexpr const char* kFixedSchedules = "its schedules are fixed";

constexpr ForeignWords kForeignWords[] = {
    {"lr lr0", "learning-rate"},
    {"bs batch mini-batch-size b", "batch-size"},
    {"workers num-workers j", "loader-threads"},
    {"workers num-workers j", "threads"},
    {"seed", "random-seed"},
    {"e num-epochs max-epochs", "epochs"},
    {"warmup warmup-epochs lr-warmup-epochs", "num-warmup-steps"},
    {"log-interval p", "print-freq"},
    {"early-stopping", "patience", "3"},
    {"img-size imgsz train-crop-size", "image-size"},
    {"val-crop-size", "eval-crop"},
    {"val-resize-size", "eval-resize"},
    {"sync-bn", "sync-batch-norm", "True"},
    {"grad-accum-steps", "accumulate"},
    {"amp", "precision", "auto"},
    {"fp16 half", "precision", "=fp16"},
    {"gpu", "device", "=cuda"},
    {"gpus world-size nproc-per-node", "ranks"},
    {"model arch a", "model-name", "", "train init-model"},
    {"model checkpoint weights", "trained-model-path", "", "score serve evaluate audit export"},
    {"arch a", "model-name"},
    {"pretrained", "weights", "torchvision"},
    {"initial-checkpoint", "weights"},
    {"data data-dir source input", "data-path"},
    {"data data-dir data-path source input", "path"},
    {"train-dir train", "train-data-path"},
    {"val-dir valid val", "valid-data-path"},
    {"val-split validation-split valid-pct", "valid-fraction"},
    {"time", "time-limit"},
    {"opt", "optimizer"},
    {"wd", "weight-decay"},
    {"norm-weight-decay=", "no-decay", "0=norm-and-bias 0.0=norm-and-bias"},
    {"clip-grad clip-grad-norm", "clip-norm"},
    {"sched lr-scheduler", "lr-schedule"},
    {"cos-lr", "lr-schedule", "=cosine"},
    {"smoothing", "label-smoothing"},
    {"mixup-alpha", "mixup"},
    {"cutmix-alpha", "cutmix"},
    {"model-ema", "ema", "0.999"},
    {"model-ema-decay", "ema"},
    {"no-aug", "augment", "=none"},
    {"hflip scale ratio", "augment", "=standard"},
    {"aa= auto-augment= reprob random-erase", "augment", "=strong"},
    {"color-jitter", "augment", "=crop,flip,color"},
    {"crop-mode=", "fit", "center=crop squash=stretch border=pad"},
    {"mean std", "normalization", "0.5=half 0.485=imagenet 0.229=imagenet"},
    {"eval-metric", "best-by"},
    {"conf threshold", "min-confidence"},
    {"topk", "top-k"},
    {"out output output-dir save-dir project o", "output-path"},
    {"out output output-dir save-dir project o", "untrained-model-path", "", "init-model"},
    {"out output output-dir save-dir project o", "run-path"},
    {kNameInProject, "run-path"},
    {"log-dir logdir experiment name", "log-path"},
    {"num-classes nc", "", "it counts the classes"},
    {"train-split=", "", "give the folder that has train and val"},
    {"val-split=", "", "give the folder that has train and val"},
    {"drop drop-path dropout drop-rate", ""},
    {"crop-pct", "", "--eval-resize is the crop divided by it"},
    {"lrf min-lr warmup-lr lr-step-size lr-gamma lr-warmup-decay", "", kFixedSchedules},
    {"lr-warmup-method= decay-rate decay-epochs", "", kFixedSchedules},
    {"channels-last pin-mem dist-bn= cache-dataset", "", "it does so by itself"},
    {"interpolation=", "", "it is bilinear, antialiased"},
    {"checkpoint-hist start-epoch", "", "--checkpoint-path keeps two, and resumes"},
    {"test-only evaluate", "", "`kiln evaluate` does it"},
    {"dist-url= local-rank", "", "`kiln launch` connects its processes"},
    {"verbose v", "", "it always says what it does"},
};

bool has_word(const char* words, std::string_view name, bool* has_value = nullptr) {
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    const bool marked = word.ends_with('=');
    if (marked) word.pop_back();
    if (!same_name(word, name)) continue;
    if (has_value != nullptr) *has_value = marked;
    return true;
  }
  return false;
}

// nullptr: no other program's.
const ForeignWords* find_foreign(const CommandInfo& command, std::string_view name) {
  for (const ForeignWords& row : kForeignWords) {
    if (*row.commands != '\0' && !has_word(row.commands, command.name)) continue;
    if (*row.option != '\0' && find_option(command, row.option) == nullptr) continue;
    if (has_word(row.words, name)) return &row;
  }
  return nullptr;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == text.npos;
}

bool is_boolean(const std::string& text, std::string_view which) {
  return in_small_letters(text) == which;
}

bool is_valid(const Option& option, const std::string& text) {
  try {
    return !text.empty() && (!option.same_value || option.same_value(option, text, text));
  } catch (const Error&) {
    return false;
  }
}

// The X of G=X…; empty: none.
std::string paired(std::string_view pairs, const std::string& given) {
  std::istringstream in{std::string(pairs)};
  for (std::string pair; in >> pair;) {
    const std::string key = pair.substr(0, pair.find('='));
    if (given == key || given.starts_with(key + ",")) return pair.substr(key.size() + 1);
  }
  return "";
}

// The value of `option` that `text` means elsewhere, such as cosineannealinglr; empty: none.
std::string fitted(const Option& option, const std::string& text) {
  if (is_valid(option, text)) return text;
  if (option.kind == ValueKind::kDuration && is_valid(option, text + "h")) return text + "h";
  for (const std::string& choice : option.choices)
    if (option.kind != ValueKind::kModelName && in_small_letters(text).starts_with(choice))
      return choice;
  return "";
}

class Translation {
 public:
  Translation(const CommandInfo& command, const std::vector<std::string>& words)
      : command_(command), words_(words) {
    for (const std::string& word : words) {
      const auto typed = split_word(command, word);
      if (!typed) continue;
      if (const Option* own = find_option(command, typed->name)) on_line_.push_back(own);
    }
  }

  std::string text() {
    while (++next_ < words_.size()) take(words_[next_]);
    return "type `kiln " + command_.name + (line_.empty() ? "" : " ") + shell_words(line_) + "`." +
           (missing_.empty() ? "" : " Kiln has nothing like " + joined(missing_, ", ") + ".");
  }

 private:
  void take(const std::string& word) {
    const std::optional<TypedWord> typed = split_word(command_, word);
    const Option* own = typed ? find_option(command_, typed->name) : nullptr;
    const ForeignWords* row = typed && !own ? find_foreign(command_, typed->name) : nullptr;
    if (own != nullptr) {
      take_own(*own, *typed);
    } else if (row != nullptr) {
      take_foreign(*row, *typed);
    } else if (!word.starts_with('-')) {
      add_bare(word);
    } else {
      line_.push_back(word);
    }
  }

  const std::string* peek() const {
    if (next_ + 1 >= words_.size() || is_dashed(words_[next_ + 1])) return nullptr;
    return &words_[next_ + 1];
  }

  // The value after the word, if it has one. A switch has a number or a boolean at most.
  std::optional<std::string> value_of(const TypedWord& typed, bool is_switch) {
    if (typed.value) return typed.value;
    const std::string* next = peek();
    if (next == nullptr) return {};
    if (is_switch && !is_number(*next) && !is_boolean(*next, "true") && !is_boolean(*next, "false"))
      return {};
    return words_[++next_];
  }

  void take_own(const Option& option, const TypedWord& typed) {
    const bool is_switch = option.kind == ValueKind::kSwitch || option.kind == ValueKind::kFlag;
    add(option, value_of(typed, is_switch).value_or(""));
  }

  void take_foreign(const ForeignWords& row, const TypedWord& typed) {
    const std::string_view usual = row.value;
    const Option* option = find_option(command_, row.option);
    bool has_value = false;
    has_word(row.words, typed.name, &has_value);
    const bool is_switch = !has_value && (option == nullptr || !usual.empty());
    const std::string given = value_of(typed, is_switch).value_or("");
    while (is_switch && is_number(given) && peek() != nullptr && is_number(*peek())) ++next_;
    if (option == nullptr) {
      missing_.push_back(typed.shown + (usual.empty() ? "" : " (" + std::string(usual) + ")"));
      return;
    }
    const bool is_zero = is_number(given) && given.find_first_not_of("0.") == given.npos;
    if (is_boolean(given, "false") || (is_zero && option->name == "augment")) return;
    const bool is_on = given.empty() || is_boolean(given, "true");
    std::string value = usual.starts_with('=')          ? std::string(usual.substr(1))
                        : usual.find('=') != usual.npos ? paired(usual, given)
                        : !is_on                        ? fitted(*option, given)
                        : usual.empty()                 ? option->default_text
                                                        : std::string(usual);
    if (value.empty() && option->kind != ValueKind::kModelName)
      missing_.push_back(typed.shown +
                         (typed.shown[0] == '-' && !given.empty() ? " " + excerpt(given) : ""));
    if (run_folder_ && option->name == "run-path") {
      const bool is_inside = has_word(kNameInProject, typed.name);
      std::string& folder = line_[*run_folder_];
      folder = is_inside ? folder + "/" + value : value + "/" + folder;
      return;
    }
    if (value.empty() || (!option->repeatable && std::ranges::count(on_line_, option) != 0)) return;
    on_line_.push_back(option);
    if (option->name == "run-path") run_folder_ = line_.size() + 1;
    const bool is_first = option == first_bare_option();
    if (is_first && (option->repeatable || bare_.empty() || bare_.front() == value))
      add_bare(value);
    else
      add(*option, value);
  }

  const Option* first_bare_option() const {
    for (const Option& option : command_.options)
      if (option.positional && option.instead.empty()) return &option;
    return nullptr;
  }

  void add_bare(const std::string& word) {
    if (std::ranges::count(bare_, word) != 0) return;
    bare_.push_back(word);
    line_.push_back(word);
  }

  void add(const Option& option, const std::string& value) {
    if (option.kind == ValueKind::kModelName && find_network(value) == nullptr)
      return;  // that of another program
    line_.push_back("--" + option.name);
    if (!value.empty()) line_.push_back(value);
  }

  const CommandInfo& command_;
  const std::vector<std::string>& words_;
  std::size_t next_ = 0;  // the first word is the command's
  std::vector<const Option*> on_line_;
  std::vector<std::string> line_, bare_, missing_;
  std::optional<std::size_t> run_folder_;  // where that of another program is
};

}  // namespace

bool is_dashed(std::string_view word) {
  return word.starts_with("--") ||
         (word.size() > 1 && word[0] == '-' && word.find_first_of("0123456789.") != 1);
}

std::optional<TypedWord> split_word(const CommandInfo& command, const std::string& word) {
  const std::size_t dashes = word.starts_with("--") ? 2 : is_dashed(word) ? 1 : 0;
  const std::size_t equals = word.find('=');
  if (dashes == 0 && equals == word.npos) return {};
  TypedWord typed{
      .name = word.substr(dashes, equals - dashes),
      .shown = dashes == 0 ? "'" + excerpt(word) + "'" : excerpt(word.substr(0, equals))};
  if (equals != word.npos) typed.value = word.substr(equals + 1);
  const std::string letter = typed.name.substr(0, 1), rest = typed.name.substr(letter.size());
  if (dashes == 1 && equals == word.npos && is_number(rest) && is_foreign(command, letter)) {
    typed.name = letter;  // -j8
    typed.value = rest;
  }
  return typed;
}

bool is_foreign(const CommandInfo& command, std::string_view name) {
  return find_foreign(command, name) != nullptr;
}

std::string foreign_option(const CommandInfo& command, std::string_view name) {
  const ForeignWords* row = find_foreign(command, name);
  const Option* option = row == nullptr ? nullptr : find_option(command, row->option);
  return option == nullptr ? "" : option->name;
}

std::string meant_option(const CommandInfo& command, std::string_view name) {
  if (is_foreign(command, name)) return foreign_option(command, name);
  std::string word(name);
  std::ranges::replace(word, '_', '-');
  std::vector<std::string> names;
  for (const Option& option : command.options) {
    names.push_back(option.name);
    if (!option.port_name.empty()) names.push_back(option.port_name);
  }
  return closest(word, names);
}

std::string line_to_type(const CommandInfo& command, const std::vector<std::string>& words) {
  return Translation(command, words).text();
}

}  // namespace kiln
