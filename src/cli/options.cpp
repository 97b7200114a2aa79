#include "cli/options.h"

#include <algorithm>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <filesystem>
#include <set>
#include <sstream>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/rows.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

// Of lines of help.
std::size_t width() {
  constexpr int kLeast = 60, kMost = 100;
  return std::clamp(live_columns(), kLeast, kMost);
}

// Breaks `text` at spaces into lines of at most width() columns. The first line starts at `column`,
// further lines at `indent`.
std::string wrapped(const std::string& text, std::size_t column, std::size_t indent) {
  std::string out;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::size_t length = end - begin;
    if (column > indent && column + 1 + length > width()) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out.append(text, begin, length);
    column += length;
    begin = end + 1;
  }
  return out;
}

// In brackets; with `all` also what values it takes.
std::string facts(const Option& option, bool all) {
  std::vector<std::string> parts;
  if (option.required)
    parts.push_back(option.instead.empty() ? "required" : "required, or --" + option.instead);
  if (!option.default_text.empty()) parts.push_back("default " + option.default_text);
  if (all && !option.port_name.empty()) parts.push_back("also --" + option.port_name);
  if (all && option.repeatable) parts.emplace_back("may be repeated");
  const std::string range = range_text(option);
  // The choices are already in the left column.
  if (all && !range.empty() && option.kind != ValueKind::kChoice &&
      option.kind != ValueKind::kBoolean && option.kind != ValueKind::kSwitch) {
    parts.push_back((option.kind == ValueKind::kModelName ? "one of " : "range ") + range);
  }
  if (all && !option.unit.empty()) parts.push_back("unit: " + option.unit);
  if (parts.empty()) return "";
  return " [" + joined(parts, "; ") + "]";
}

// A command in a list of them.
std::string entry(std::string name, const std::string& help) {
  constexpr std::size_t kHelpColumn = 20;
  name.resize(kHelpColumn - 2, ' ');
  return "  " + name + wrapped(help, kHelpColumn, kHelpColumn) + "\n";
}

// A table of options; a group has a title.
po::options_description table(const std::string& title = "") {
  constexpr unsigned kLeastHelp = 46;  // columns
  const auto columns = static_cast<unsigned>(width());
  return {title, columns, std::min(kLeastHelp, columns / 2)};
}

void add_entry(po::options_description& table, const Option& option, bool all) {
  std::string text = (all ? option.help : first_sentence(option.help) + ".") + facts(option, all);
  // Boost breaks a long word, unless it begins a line.
  std::size_t end = text.size();
  for (std::size_t space = text.rfind(' '); space != text.npos;
       end = space, space = text.rfind(' ', space - 1))
    if (end - space > width() / 4) text[space] = '\n';
  add_row(table, option, text);
}

std::string text_of(const po::options_description& table) {
  std::ostringstream out;
  out << table;
  std::string text = out.str();
  for (std::size_t at = 0; (at = text.find(" \n", at)) != text.npos;) text.erase(at, 1);
  return text;
}

// Words that no description has, and the words to search instead, or a sentence.
constexpr std::pair<std::string_view, std::string_view> kTopics[] = {
    {"imbalance imbalanced unbalanced", "class-weights"},
    {"transfer finetune finetuning", "weights"},
    {"zip tgz", "archive"},
    {"jupyter ipynb", "notebook"},
    {"wandb",
     "Kiln writes TensorBoard's files, and sends to MLflow where MLFLOW_TRACKING_URI is set."},
    {"exclude skip",
     "An image is left out by an empty label in the table of --labels (docs/audit.md)."},
    {"jpg jpeg png bmp ppm pgm tif tiff webp heic avif gif raw",
     "Kiln reads JPEG, PNG, BMP, PPM, PGM, TIFF and WebP images, and HEIC where the system has "
     "libheif, in folders, .zip and .tar; others are counted and left out (docs/formats.md)."},
};

// The words of a text, in small letters and the singular.
std::vector<std::string> stems_of(std::string_view text) {
  std::vector<std::string> stems(1);
  for (const char c : in_small_letters(text)) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c < 0;
    if (is_letter)
      stems.back() += c;
    else if (!stems.back().empty())
      stems.emplace_back();
  }
  if (stems.back().empty()) stems.pop_back();
  for (std::string& stem : stems) {
    if (stem.ends_with("sses")) stem.resize(stem.size() - 2);
    if (stem.size() > 3 && stem.ends_with('s') && !stem.ends_with("ss")) stem.pop_back();
  }
  return stems;
}

// Whether words of the text that follow each other make up the query: heatmap, "heat maps".
bool has_words(std::string_view text, const std::string& query) {
  const std::vector<std::string> stems = stems_of(text);
  for (auto first = stems.begin(); first != stems.end(); ++first) {
    std::string together;
    for (auto last = first; last != stems.end() && together.size() < query.size(); ++last)
      together += *last;
    if (together == query) return true;
  }
  return false;
}

// Where a word that help is asked for is found, the best place first.
enum class Place { kIsName, kInName, kInText, kPart };

bool is_in(const std::string& name, const std::string& text, const std::string& query,
           Place place) {
  if (place == Place::kInName) return has_words(name, query);
  if (place == Place::kInText) return has_words(text, query);
  constexpr std::size_t kLeastPart = 3;
  return place == Place::kPart && query.size() >= kLeastPart &&
         joined(stems_of(name + " " + text), "").find(query) != std::string::npos;
}

// The paragraphs of a page of documentation, each on one line, without code and markup. Headings
// and rows of tables are paragraphs.
std::vector<std::string> paragraphs_of(const fs::path& page) {
  std::vector<std::string> paragraphs(1);
  const std::string text = read_file(page);
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = take_line(rest);
    const bool is_text = !line.empty() && !line.starts_with("    ") && !line.starts_with('<');
    if (!is_text || line.starts_with('|')) paragraphs.emplace_back();
    if (is_text)
      paragraphs.back().append(paragraphs.back().empty() ? "" : " ").append(trimmed(line));
  }
  return paragraphs;
}

// The paragraphs of the documents with all these words; those of a heading with them come first.
std::string documents_on(const std::vector<std::string>& words) {
  constexpr std::size_t kMost = 5;
  constexpr int kMostText = 300;
  const auto has_all = [&words](const std::string& text) {
    const std::vector<std::string> stems = stems_of(text);
    return std::ranges::all_of(
        words, [&](const auto& word) { return std::ranges::find(stems, word) != stems.end(); });
  };
  std::error_code fault;
  const fs::path bin = fs::read_symlink("/proc/self/exe", fault).parent_path(),
                 folder = (is_folder(bin / "share") ? bin : bin.parent_path()) / "share/doc/kiln";
  std::vector<std::string> names = names_in(folder), of_heading, others;
  std::ranges::sort(names);
  for (const std::string& name : names) {
    std::string heading;
    bool is_named = false;  // by the heading, whose first paragraph is enough
    for (const std::string& paragraph : paragraphs_of(folder / name)) {
      if (paragraph.starts_with('#')) {
        heading = trimmed(paragraph, "# ");
        is_named = has_all(heading);
      } else if (is_named || has_all(paragraph)) {
        const std::string text = cut_to(paragraph, kMostText);
        (std::exchange(is_named, false) ? of_heading : others)
            .push_back((folder / name).string() + ", " + heading + ":\n  " + wrapped(text, 2, 2) +
                       (text.size() < paragraph.size() ? " ...\n" : "\n"));
      }
    }
  }
  of_heading.insert(of_heading.end(), others.begin(), others.end());
  of_heading.resize(std::min(of_heading.size(), kMost));
  return joined(of_heading, "\n");
}

bool is_found(const CommandInfo& command, const Option& option, const std::string& name,
              const std::string& query, Place place) {
  if (place == Place::kIsName) return &option == find_option(command, name);
  if (place == Place::kInName && foreign_option(command, name) == option.name) return true;
  return is_in(option.name + " . " + joined(option.choices, " . "), option.help, query, place);
}

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  const auto plain = [](char c) { return c == '_' ? '-' : c; };
  return std::ranges::equal(a, b, {}, plain, plain);
}

const std::vector<CommandInfo>& command_table() {
  static const std::vector<CommandInfo> kTable = {
      train_command(),     score_command(),          serve_command(),           evaluate_command(),
      audit_command(),     embed_command(),          select_command(),          export_command(),
      launch_command(),    tune_command(),           init_model_command(),      convert_command(),
      split_command(),     transform_init_command(), transform_apply_command(), pack_command(),
      demo_data_command(), inspect_command(),        report_command(),          compare_command(),
      describe_command(),
  };
  return kTable;
}

const CommandInfo* find_command(std::string_view name) {
  for (const CommandInfo& command : command_table())
    if (same_name(command.name, name)) return &command;
  return nullptr;
}

const Option* find_option(const CommandInfo& command, std::string_view name) {
  for (const Option& option : command.options)
    if (same_name(option.name, name) ||
        (!option.port_name.empty() && same_name(option.port_name, name)))
      return &option;
  return nullptr;
}

std::string meant_option(const CommandInfo& command, std::string_view name) {
  if (const auto foreign = foreign_option(command, name)) return std::string(*foreign);
  std::string word(name);
  std::ranges::replace(word, '_', '-');
  std::vector<std::string> names;
  for (const Option& option : command.options) {
    names.push_back(option.name);
    if (!option.port_name.empty()) names.push_back(option.port_name);
  }
  return closest(word, names);
}

bool is_same_setting(const Option& option, const std::string& a, const std::string& b) {
  if (a == b) return true;
  if (a.empty() || b.empty()) return false;
  try {
    return option.same_value(option, a, b);
  } catch (const Error&) {  // a text from another version of the program
    return false;
  }
}

std::vector<Setting> changed_options(const OptionTexts& before, const OptionTexts& now) {
  const auto shown = [](const std::string& text) { return text.empty() ? "not given" : text; };
  std::vector<Setting> changed;
  for (const Option& option : find_command("train")->options) {
    const auto text_in = [&](const OptionTexts& texts) {
      const auto found = std::ranges::find(texts, option.name, &OptionTexts::value_type::first);
      return found == texts.end() ? option.default_text : found->second;
    };
    const std::string old_text = text_in(before), new_text = text_in(now);
    if (!is_same_setting(option, old_text, new_text))
      changed.push_back({.option = &option,
                         .text = new_text,
                         .reason = "was " + shown(old_text) + " and is now " + shown(new_text)});
  }
  return changed;
}

std::string range_text(const Option& option) {
  const std::string least = std::to_string(option.minimum), most = std::to_string(option.maximum);
  std::string bounds = least + " to " + most, above = "greater than " + least + ", up to " + most;
  switch (option.kind) {
    case ValueKind::kInteger:
      return option.minimum == kLowest ? "any 64-bit integer" : bounds;
    case ValueKind::kAutoOrInteger:
      return "auto, or " + bounds;
    case ValueKind::kNumberFrom:
      return bounds;
    case ValueKind::kAutoOrSize:
      return "auto, or " + bounds + ", or two of them as HxW";
    case ValueKind::kCropSize:
      return "auto, larger, or " + bounds;
    case ValueKind::kNumber:
      return above;
    case ValueKind::kChoiceOrNumber:
      return joined(option.choices, ", ") + ", or " + above;
    case ValueKind::kCountedChoice:
      return joined(option.choices, ", ") + " or " + option.choices.back() + ":N, N from " + bounds;
    case ValueKind::kShare:
      return "greater than 0, up to 1 (or 100%)";
    case ValueKind::kAllowance:
      return "auto, 0% to 100%, or " + bounds;
    case ValueKind::kEvery:
      return bounds + " epochs, steps, s, min or h";
    case ValueKind::kAugment:
      return "none, standard, strong, or a list of " +
             joined({kAugmentStepNames.begin(), kAugmentStepNames.end()}, ",");
    case ValueKind::kDuration:
      return bounds + " s, min or h";
    case ValueKind::kImageSize:
      return bounds + ", or two of them";
    case ValueKind::kChoice:
    case ValueKind::kModelName:
      return join_choices(option.choices);
    case ValueKind::kBoolean:
    case ValueKind::kSwitch:
      return "True or False";
    case ValueKind::kText:
      return option.choices.empty() ? "" : option.value_name;
    case ValueKind::kPath:
    case ValueKind::kFlag:
      return "";
  }
  return "";
}

// `kiln --help` and `kiln COMMAND --help`: grouped, aligned, as wide as the terminal.

std::string first_sentence(const std::string& help) {
  std::string sentence = help.substr(0, help.find(". "));
  if (sentence.ends_with('.')) sentence.pop_back();
  return sentence;
}

void add_row(po::options_description& table, const Option& option, const std::string& help) {
  // A value may follow in any case: what is missing or too much is not Boost's to say.
  auto* value = po::value<std::string>()->implicit_value("", "");
  value->value_name(option.value_name.empty() ? " " : option.value_name);
  table.add_options()(option.name.c_str(), value, help.c_str());
}

std::string command_help(const CommandInfo& command, bool all) {
  const auto& options = command.options;
  all = all || std::ranges::none_of(options, &Option::is_on_first_screen);
  const std::string usage = "Usage: kiln " + command.name;
  std::string text = wrapped(command.summary, 0, 0) + "\n\n" + usage + " " +
                     wrapped(command.usage, usage.size() + 1, usage.size() + 1) + "\n";
  for (const std::string& example : command.examples) text += "  " + example + "\n";
  po::options_description groups = table();
  std::set<std::string> done;
  for (const Option& first : options) {
    if (!done.insert(first.group).second) continue;
    po::options_description group = table(first.group);
    for (const Option& option : options)
      if (option.group == first.group && (all || option.is_on_first_screen))
        add_entry(group, option, all);
    if (!group.options().empty()) groups.add(group);
  }
  text += text_of(groups);
  if (!all)
    text += formatted("\n`kiln %s --help all` shows all %zu options.\n", command.name.c_str(),
                      options.size());
  return text;
}

std::string help_on(const std::string& words) {
  const std::string query = joined(stems_of(words), "");
  if (query.empty()) return "";
  for (const auto& [asked, text] : kTopics)
    for (const std::string& word : stems_of(asked))
      if (word == query)
        return text.ends_with('.') ? wrapped(std::string(text), 0, 0) + "\n"
                                   : help_on(std::string(text));
  std::string name = words.substr(std::min(words.find_first_not_of('-'), words.size()));
  std::ranges::replace(name, ' ', '-');
  for (const Place place : {Place::kIsName, Place::kInName, Place::kInText, Place::kPart}) {
    std::string brief, full;
    int count = 0;
    for (const CommandInfo& command : command_table()) {
      po::options_description entries = table(), full_entries = table();
      for (const Option& option : command.options)
        if (is_found(command, option, name, query, place)) {
          add_entry(entries, option, false);
          add_entry(full_entries, option, true);
          ++count;
        }
      const std::string title = "kiln " + command.name + ":";
      const bool is_command = is_in(command.name, command.summary, query, place);
      if (entries.options().empty() && !is_command) continue;
      const std::string heading =
          (full.empty() ? "" : "\n") + title +
          (is_command ? " " + wrapped(command.summary, title.size() + 1, 2) : "") + "\n";
      brief += heading + text_of(entries);
      full += heading + text_of(full_entries);
    }
    constexpr int kMostInFull = 10;
    if (!full.empty()) return place == Place::kIsName || count <= kMostInFull ? full : brief;
  }
  return documents_on(stems_of(words));
}

std::string general_help() {
  std::string text =
      wrapped(
          "Kiln trains image classifiers on folders of labeled photos, and scores new photos with "
          "them.",
          0, 0) +
      "\n\nUsage: kiln COMMAND [options]\n"
      "  kiln train photos        photos has a folder for each class\n"
      "  kiln score photo.jpg     by the model that was trained last in this folder\n\n"
      "Commands:\n";
  for (const CommandInfo& command : command_table()) text += entry(command.name, command.summary);
  return text + "\n" + entry("COMMAND --help", "Show the options of a command.") +
         entry("help WORD", "Find a command, an option, or a word in their descriptions.") +
         entry("--version", "Show the versions of kiln and its libraries.");
}

}  // namespace kiln
