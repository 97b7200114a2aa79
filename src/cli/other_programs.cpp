// The words of other training programs, and the line of Kiln that stands for a line of theirs.
#include <algorithm>
#include <iterator>
#include <optional>
#include <sstream>

#include "base/text.h"
#include "cli/rows.h"

namespace kiln {
namespace {

// Words of other programs (docs/coming-from.md) for an option of Kiln. The first row of a word that
// has an option of the command is used.
struct ForeignWords {
  const char* words;   // one that ends in = takes a value, whatever that looks like
  const char* option;  // empty: Kiln has none
  // Empty: the word's own value. X: X, unless the word has a value. =X: X in any case; none if X is
  // empty. Without an option: what Kiln does about it; may be empty.
  const char* value = "";
  const char* commands = "";  // those that the row is for; empty: all
  const char* given = "";     // the word's values, or the first of several, that the row is for
};

constexpr const char* kNameInProject = "experiment name";  // the folder is in --project's

constexpr ForeignWords kForeignWords[] = {
    {"lr lr0", "learning-rate"},
    {"bs batch mini-batch-size per-device-train-batch-size b", "batch-size"},
    {"workers num-workers j", "loader-threads"},
    {"workers num-workers j", "threads"},
    {"seed", "random-seed"},
    {"e num-epochs max-epochs num-train-epochs", "epochs"},
    {"warmup warmup-epochs lr-warmup-epochs", "num-warmup-steps"},
    {"log-interval p", "print-freq"},
    {"early-stopping", "patience", "3"},
    {"img-size imgsz train-crop-size", "image-size"},
    {"val-crop-size", "eval-crop"},
    {"val-resize-size", "eval-resize"},
    {"sync-bn", "sync-batch-norm", "True"},
    {"grad-accum-steps", "accumulate"},
    {"amp", "precision", "auto"},
    {"fp16 half", "precision", "=auto"},
    {"gpu cuda", "device", "=cuda"},
    {"cpu", "device", "=cpu"},
    {"gpus world-size nproc-per-node", "ranks"},
    {"model arch a", "model-name", "", "train init-model"},
    {"model checkpoint weights", "trained-model-path", "", "score serve evaluate audit export"},
    {"arch a", "model-name"},
    {"pretrained fine-tune", "weights", "torchvision"},
    {"initial-checkpoint", "weights"},
    {"data data-dir source input", "data-path"},
    {"data data-dir data-path source input", "path"},
    {"train-dir train", "train-data-path"},
    {"val-dir valid val", "valid-data-path"},
    {"val-split validation-split valid-pct", "valid-fraction"},
    {"time", "time-limit"},
    {"opt", "optimizer", "=sgd", "", "sgd_nesterov"},
    {"opt", "optimizer"},
    {"wd", "weight-decay"},
    {"norm-weight-decay=", "no-decay", "=norm-and-bias", "", "0 0.0"},
    {"norm-weight-decay=", "no-decay", "="},
    {"clip-grad clip-grad-norm", "clip-norm"},
    {"sched lr-scheduler", "lr-schedule", "=cosine", "", "cosineannealinglr"},
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
    {"crop-mode=", "fit", "=crop", "", "center"},
    {"crop-mode=", "fit", "=stretch", "", "squash"},
    {"crop-mode=", "fit", "=pad", "", "border"},
    {"crop-mode=", "fit", "="},
    {"mean std", "normalization", "=half", "", "0.5"},
    {"mean std", "normalization", "=imagenet", "", "0.485 0.229"},
    {"mean std", "normalization", "="},
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
    {"lrf min-lr warmup-lr lr-step-size lr-gamma lr-warmup-decay", "", "its schedules are fixed"},
    {"lr-warmup-method= decay-rate decay-epochs", "", "its schedules are fixed"},
    {"channels-last pin-mem dist-bn= cache-dataset", "", "it does so by itself"},
    {"interpolation=", "", "it is bilinear, antialiased"},
    {"checkpoint-hist start-epoch", "", "--checkpoint-path keeps two, and resumes"},
    {"test-only evaluate", "", "`kiln evaluate` does it"},
    {"dist-url= local-rank", "", "`kiln launch` connects its processes"},
    {"verbose quiet v q", "", "it always says what it does"},
    {"report-to= wandb tensorboard", "",
     "it writes TensorBoard's files, and sends to MLFLOW_TRACKING_URI"},
    {"save-period", "", "it saves the best epoch, and --checkpoint-path keeps two"},
    {"dry-run", "", "`kiln inspect` checks the images"},
    {"list-models", "", "`kiln help model-name` lists them"},
};

// An empty list has every word.
bool has_word(const std::string& words, std::string_view word) {
  std::istringstream in(words);
  return words.empty() || std::any_of(std::istream_iterator<std::string>(in), {},
                                      [&](const std::string& one) { return same_name(one, word); });
}

// nullptr: no other program's.
const ForeignWords* find_foreign(const CommandInfo& command, const std::string& name,
                                 const std::string& value = "") {
  const std::string given = in_small_letters(value.substr(0, value.find(',')));
  for (const ForeignWords& row : kForeignWords)
    if ((has_word(row.words, name) || has_word(row.words, name + "=")) &&
        (*row.option == '\0' || find_option(command, row.option) != nullptr) &&
        has_word(row.commands, command.name) && has_word(row.given, given))
      return &row;
  return nullptr;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == text.npos;
}

bool is_valid(const Option& option, const std::string& text) {
  try {
    return option.same_value(option, text, text);
  } catch (const Error&) {
    return false;
  }
}

// The value of `option` that stands for the one that is `given`; empty: there is none.
std::string meant_value(const std::string& usual, const Option& option, const std::string& given) {
  if (usual.starts_with('=')) return usual.substr(1);
  if (given.empty() || in_small_letters(given) == "true")
    return usual.empty() ? option.default_text : usual;
  for (const std::string& text : {given, given + "h"})  // a time is in hours
    if (is_valid(option, text)) return text;
  return "";
}

// The words of a command line, one after the other.
struct Translation {
  const CommandInfo& command;
  const std::vector<std::string>& words;
  std::size_t next = 0;   // the first word is the command's
  OptionTexts line = {};  // the name of what has none is empty
  std::vector<std::string> missing = {};

  std::string text() {
    while (++next < words.size()) parse(words[next]);
    std::string typed = "type `kiln " + command.name;
    for (const auto& [name, value] : line)
      typed += (name.empty() ? "" : " --" + name) + (value.empty() ? "" : " " + shell_word(value));
    return typed + "`." +
           (missing.empty() ? "" : " Kiln has nothing like " + joined(missing, ", ") + ".");
  }

  void parse(const std::string& word) {
    const std::optional<TypedWord> typed = split_word(command, word);
    const Option* own = typed ? find_option(command, typed->name) : nullptr;
    if (own == nullptr)
      return typed && find_foreign(command, typed->name) ? parse_foreign(*typed) : add("", word);
    if (!own->repeatable)
      std::erase_if(line, [&](auto& other) { return other.first == own->name; });
    const bool is_switch = own->kind == ValueKind::kSwitch || own->kind == ValueKind::kFlag;
    const std::string value = value_of(*typed, is_switch);
    if (!value.empty() && !is_valid(*own, value))
      return missing.push_back(typed->shown + " " + excerpt(value));
    add(own->name, value);
  }

  bool has_value() const { return next + 1 < words.size() && !is_dashed(words[next + 1]); }

  // A switch has a number or a boolean at most.
  std::string value_of(const TypedWord& typed, bool is_switch) {
    if (typed.value || !has_value()) return typed.value.value_or("");
    const std::string& word = words[next + 1];
    if (is_switch && !is_number(word) && !has_word("true false", in_small_letters(word))) return "";
    return words[++next];
  }

  void parse_foreign(const TypedWord& typed) {
    const ForeignWords& row = *find_foreign(command, typed.name);
    const std::string usual = row.value, marked = typed.name + "=";
    const Option* option = find_option(command, row.option);
    const bool is_switch = !has_word(row.words, marked) && (option == nullptr || !usual.empty());
    const std::string given = value_of(typed, is_switch);
    while (is_switch && is_number(given) && has_value() && is_number(words[next + 1])) ++next;
    if (option == nullptr)
      return missing.push_back(typed.shown + (usual.empty() ? "" : " (" + usual + ")"));
    const bool is_zero = option->name == "augment" && has_word("0 0.0", given);
    if (is_zero || in_small_letters(given) == "false") return;
    const ForeignWords* exact = find_foreign(command, typed.name, given);
    const std::string value = meant_value(exact->value, *option, given);
    if (value.empty() && option->kind != ValueKind::kModelName)
      missing.push_back(typed.shown +
                        (typed.shown[0] != '-' || given.empty() ? "" : " " + excerpt(given)));
    // A command's first path is typed without a name, unless the line has another one.
    const auto path = std::ranges::find(line, "", &OptionTexts::value_type::first);
    const bool is_bare = option->positional && option->instead.empty() &&
                         option->canvas != Canvas::kDataOut &&
                         (option->repeatable || path == line.end() || path->second == value);
    const std::string name = is_bare ? "" : option->name;
    const auto same = std::ranges::find(line, name, &OptionTexts::value_type::first);
    if (name == "run-path" && same != line.end())
      same->second = has_word(kNameInProject, typed.name) ? same->second + "/" + value
                                                          : value + "/" + same->second;
    else if (!value.empty() && (same == line.end() || option->repeatable))
      add(name, value);
  }

  // The same path once.
  void add(const std::string& name, const std::string& value) {
    if (!name.empty() || std::ranges::count(line, OptionTexts::value_type("", value)) == 0)
      line.emplace_back(name, value);
  }
};

}  // namespace

bool is_dashed(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && word.find_first_of("0123456789.") != 1;
}

std::optional<TypedWord> split_word(const CommandInfo& command, const std::string& word) {
  const std::size_t dashes = word.starts_with("--") ? 2 : is_dashed(word) ? 1 : 0;
  const std::size_t equals = word.find('=');
  if (dashes == 0 && equals == word.npos) return {};
  TypedWord typed{
      .name = word.substr(dashes, equals - dashes),
      .shown = dashes == 0 ? "'" + excerpt(word) + "'" : excerpt(word.substr(0, equals))};
  if (equals != word.npos)
    typed.value = word.substr(equals + 1);
  else if (dashes == 1 && is_number(word.substr(2)) && find_foreign(command, word.substr(1, 1)))
    typed = {word.substr(1, 1), typed.shown, word.substr(2)};  // -j8
  return typed;
}

std::optional<std::string_view> foreign_option(const CommandInfo& command, std::string_view name) {
  const ForeignWords* row = find_foreign(command, std::string(name));
  return row == nullptr ? std::nullopt : std::optional<std::string_view>(row->option);
}

std::string line_to_type(const CommandInfo& command, const std::vector<std::string>& words) {
  return Translation{command, words}.text();
}

}  // namespace kiln
