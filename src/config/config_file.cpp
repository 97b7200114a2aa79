// --config: a YAML or JSON mapping of option names to values. The one user of yaml-cpp in this
// room.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <system_error>

#include "base/files.h"
#include "config/closest.h"
#include "config/raw.h"
#include "config/values.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMaxFileBytes = 1 << 20;

bool is_same_value(const std::string& a, const std::string& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

class ConfigFile {
 public:
  ConfigFile(const CommandInfo& command, const std::string& path, RawArguments& raw)
      : command_(command), path_(path), raw_(raw) {}

  void read() {
    const RawValue* flag = raw_.find("config");
    try {
      take_documents(YAML::LoadAll(text()));
    } catch (const Error& error) {
      give_up(flag == nullptr ? 0 : flag->position, error.message());
    } catch (const YAML::Exception& failure) {
      give_up(flag == nullptr ? 0 : flag->position,
              "The --config file '" + path_ + "', line " + std::to_string(failure.mark.line + 1) +
                  ", is neither YAML nor JSON: " + failure.msg + ".");
    }
  }

 private:
  void fault(int position, const std::string& message) {
    raw_.faults.add(position, Error(ErrorCode::kParameterParsing, message));
  }

  std::string place(int line) const {
    return "line " + std::to_string(line) + " of '" + path_ + "'";
  }

  // What an unreadable file might have said cannot be called missing.
  void give_up(int position, const std::string& message) {
    for (const Option& option : command_.options) raw_.mentioned.push_back(&option);
    fault(position, message);
  }

  std::string text() const {
    const auto refuse = [&](const std::string& why) {
      throw Error(ErrorCode::kParameterParsing, "The --config file '" + path_ + "' " + why +
                                                    ": give the path of a YAML or JSON file.");
    };
    std::error_code absent;
    const std::filesystem::file_status status = std::filesystem::status(path_, absent);
    if (std::filesystem::is_directory(status)) refuse("is a folder");
    // A pipe might never end.
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
      refuse("is a pipe or a device");
    try {
      return read_file(path_, kMaxFileBytes);
    } catch (const std::system_error& failure) {
      refuse("cannot be read (" + failure.code().message() + ")");
    } catch (const std::length_error&) {
      refuse("is too large, over 1 MiB");
    }
    return {};
  }

  void take_documents(const std::vector<YAML::Node>& documents) {
    if (documents.size() > 1)
      fault(kConfigFilePosition,
            "The --config file '" + path_ + "' holds more than one mapping, the next from line " +
                std::to_string(documents[1].Mark().line + 1) + ": leave one of them.");
    if (!documents.empty()) take_mapping(documents.front());
  }

  void take_mapping(const YAML::Node& root) {
    if (root.IsNull()) return;
    if (!root.IsMap()) {
      fault(kConfigFilePosition, "The --config file '" + path_ +
                                     "' does not hold a mapping: give lines such as 'epochs: 5'.");
      return;
    }
    for (const auto& entry : root) take_entry(entry.first, entry.second);
  }

  void take_entry(const YAML::Node& key, const YAML::Node& value) {
    const int line = key.Mark().line + 1;
    const int position = kConfigFilePosition + line;
    const std::string name = key.IsScalar() ? key.Scalar() : "";
    const Option* option = name == "config" ? nullptr : find_option(command_, name);
    if (option == nullptr) {
      fault(position, "'" + excerpt(name) + "' (" + place(line) +
                          ") is not an option that a --config file can set." + guess(name));
      return;
    }
    raw_.mentioned.push_back(option);
    const auto [earlier, is_new] = lines_.emplace(option, line);
    if (!is_new) {
      fault(position, "'" + name + "' (" + place(line) + ") is given twice, first in line " +
                          std::to_string(earlier->second) + ": give it once.");
      return;
    }
    if (!value.IsScalar() && !value.IsNull()) {
      fault(position, "'" + name + "' (" + place(line) +
                          ") holds a list or a mapping, but must be one value.");
      return;
    }
    const std::string text = value.IsNull() ? "" : value.Scalar();
    if (const RawValue* flag = raw_.find(option->name)) {
      note_if_overruled(text, *flag);
      return;
    }
    const std::string where = "--" + option->name + " (" + place(line) + ")";
    raw_.values.push_back({option, text, where, position});
  }

  void note_if_overruled(const std::string& text, const RawValue& flag) {
    if (is_same_value(text, flag.text)) return;
    raw_.overridden +=
        (raw_.overridden.empty() ? "The --config file '" + path_ + "' says " : "; ") +
        flag.option->name + " " + excerpt(text) + ", but --" + flag.option->name + " " +
        excerpt(flag.text) + " wins";
  }

  std::string guess(std::string name) const {
    std::replace(name.begin(), name.end(), '_', '-');
    std::vector<std::string> names;
    for (const Option& option : command_.options) {
      if (option.name != "config") names.push_back(option.name);
    }
    return did_you_mean(name, names);
  }

  const CommandInfo& command_;
  const std::string& path_;
  RawArguments& raw_;
  std::map<const Option*, int> lines_;
};

}  // namespace

void read_config_file(const CommandInfo& command, const std::string& path, RawArguments& raw) {
  ConfigFile(command, path, raw).read();
}

}  // namespace kiln
