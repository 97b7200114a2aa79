// The file that --config names: YAML or JSON that sets options.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/arguments.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMaxFileBytes = 1 << 20;

// Collects the lines on which the documents of a file begin. YAML::LoadAll would count the
// documents, but in yaml-cpp 0.7 it never returns for a text such as ", e", which the parser takes
// for an endless series of documents.
class DocumentLines : public YAML::EventHandler {
 public:
  const std::vector<int>& lines() const { return lines_; }

  void OnDocumentStart(const YAML::Mark& mark) override { lines_.push_back(mark.line + 1); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  std::vector<int> lines_;
};

// JSON as YAML, which does not read a character in two halves, \ud83d\ude00.
std::string with_whole_characters(const std::string& text) try {
  const bool has_halves = in_small_letters(text).find("\\ud") != text.npos;
  return has_halves && trimmed(text).starts_with('{') ? parse_ordered_json(text).dump(2) : text;
} catch (const JsonFault&) {
  return text;  // the faults of YAML name the line
}

class ConfigFile {
 public:
  ConfigFile(const std::string& path, Given& given) : path_(path), given_(given) {}

  void read() {
    try {
      read_documents(with_whole_characters(text()));
    } catch (const Error& error) {
      give_up(error.message());
    } catch (const YAML::Exception& failure) {
      give_up("The --config file '" + path_ + "', line " + std::to_string(failure.mark.line + 1) +
              ", is neither YAML nor JSON: " + failure.msg + ".");
    }
  }

 private:
  std::string place(int line) const {
    return "line " + std::to_string(line) + " of '" + path_ + "'";
  }

  // An unreadable file might set any option, so report none as missing.
  void give_up(const std::string& message) {
    given_.mention_all();
    given_.fault("config", message);
  }

  std::string text() const {
    const auto refuse = [&](const std::string& why) {
      throw Error(ErrorCode::kParameterParsing, "The --config file '" + path_ + "' " + why +
                                                    ": give the path of a YAML or JSON file.");
    };
    if (is_folder(path_)) refuse("is a folder");
    // Reading a pipe might never end.
    if (is_there(path_) && !is_file(path_)) refuse("is a pipe or a device");
    return read_text_or(path_, kMaxFileBytes, "is larger than 1 MiB", refuse);
  }

  void read_documents(const std::string& text) {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    DocumentLines documents;
    while (documents.lines().size() < 2 && parser.HandleNextDocument(documents)) continue;
    if (documents.lines().size() > 1)
      given_.fault(kConfigFilePosition,
                   "The --config file '" + path_ +
                       "' contains more than one document, the second starting at line " +
                       std::to_string(documents.lines()[1]) + ": keep only one.");
    const YAML::Node root = documents.lines().empty() ? YAML::Node() : YAML::Load(text);
    if (!root.IsNull() && !root.IsMap())
      given_.fault(kConfigFilePosition, "The --config file '" + path_ +
                                            "' is not a mapping: write lines such as 'epochs: 5'.");
    if (!root.IsMap()) return;
    for (const auto& entry : root) add_entry(entry.first, entry.second);
  }

  void add_entry(const YAML::Node& key, const YAML::Node& value) {
    const int line = key.Mark().line + 1;
    const int position = kConfigFilePosition + line;
    const std::string name = key.IsScalar() ? key.Scalar() : "";
    const Option* option = name == "config" ? nullptr : find_option(given_.command, name);
    if (option == nullptr) {
      const RemovedWord* removed = find_removed(given_.command.name, name);
      const std::string meant = meant_option(given_.command, name);
      const bool has_guess = removed == nullptr && !meant.empty() && meant != "config";
      given_.fault(position,
                   "'" + excerpt(name) + "' (" + place(line) + ") " +
                       (removed == nullptr ? "is not an option that can be set in a --config file."
                                           : removed->fate() + ".") +
                       (has_guess ? " Did you mean '" + meant + "'?" : ""));
      return;
    }
    given_.mentioned.push_back(option);
    const auto [earlier, is_new] = lines_.emplace(option, line);
    if (!is_new) {
      given_.fault(position, "'" + name + "' (" + place(line) + ") is given twice, first in line " +
                                 std::to_string(earlier->second) + ": give it once.");
      return;
    }
    if (!value.IsScalar() && !value.IsNull()) {
      given_.fault(position, "'" + name + "' (" + place(line) +
                                 ") is a list or a mapping, but must be a single value.");
      return;
    }
    const std::string text = value.IsNull() ? "" : value.Scalar();
    if (const GivenValue* flag = given_.find(option->name)) {
      if (in_small_letters(text) == in_small_letters(flag->text)) return;
      std::string& reason = given_.find(options::kConfig)->reason;
      reason += (reason.empty() ? "is overridden by flags: " : "; ") + option->name + " " +
                excerpt(text) + " -> " + excerpt(flag->text);
      return;
    }
    given_.add({{option, text, Origin::kFile, place(line)}, position});
  }

  const std::string path_;
  Given& given_;
  std::map<const Option*, int> lines_;
};

}  // namespace

void read_config_file(Given& given) {
  const GivenValue* file = given.find(options::kConfig);
  if (file == nullptr || file->text.empty()) return;
  const std::string path = file->text;
  ConfigFile(path, given).read();
}

}  // namespace kiln
