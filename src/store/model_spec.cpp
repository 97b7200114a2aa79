#include "store/model_spec.h"

#include <yaml-cpp/yaml.h>
#include <array>
#include <charconv>
#include <cmath>
#include <regex>

#include "base/error.h"
#include "base/files.h"
#include "base/text_file.h"
#include "model/catalogue.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMaxMeta = 1 << 16;

std::string scalar_at(const YAML::Node& root, const char* key) {
  const YAML::Node node = root[key];
  return node.IsDefined() && node.IsScalar() ? node.Scalar() : std::string();
}

Error meta_fault(const std::string& where, const std::string& fault) {
  return Error(ErrorCode::kInvalidModelDirectory,
               "'" + where + "' " + fault + ". Give a folder written by 'kiln init-model'.");
}

constexpr std::size_t kMaxSpec = 1 << 16;
constexpr int kMaxClasses = 1'000'000;
constexpr std::string_view kModulePrefix =
    "azureml.designer.modules.dl.pytorch.initialize_models.vision.classification.";

// Whether it is a plain file name, which cannot lead out of its directory.
bool is_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

// Options that only some networks have.
struct Switch {
  std::string_view key;
  bool ModelSpec::*value;
};
constexpr std::array kSwitches{Switch{kMemoryEfficient, &ModelSpec::memory_efficient},
                               Switch{kZeroInitResidual, &ModelSpec::zero_init_residual}};

class SpecReader {
 public:
  explicit SpecReader(const std::string& where) : where_(where) {}

  [[noreturn]] void fail(const std::string& fault) const {
    throw Error(ErrorCode::kInvalidModelDirectory,
                "'" + where_ + "' is not a usable model specification: " + fault +
                    ". Create the model directory again with 'kiln init-model'.");
  }

  YAML::Node map_at(const YAML::Node& parent, const std::string& key) const {
    YAML::Node node = required(parent, key);
    if (!node.IsMap()) fail("its key '" + key + "' is not a mapping");
    return node;
  }

  std::string text_at(const YAML::Node& parent, const std::string& key) const {
    const YAML::Node node = required(parent, key);
    if (!node.IsScalar() || node.Scalar().empty()) fail("its key '" + key + "' is not a string");
    return node.Scalar();
  }

  bool bool_of(const YAML::Node& node, const std::string& key) const {
    bool value = false;
    if (!YAML::convert<bool>::decode(node, value))
      fail("its key '" + key + "' is neither true nor false");
    return value;
  }

  YAML::Node required(const YAML::Node& parent, const std::string& key) const {
    YAML::Node node = parent[key];
    if (!node.IsDefined() || node.IsNull()) fail("its key '" + key + "' is missing");
    return node;
  }

 private:
  const std::string& where_;
};

std::string shortened(const std::string& text) {
  return "'" + text.substr(0, 100) + "'";
}

bool is_timestamp(const std::string& text) {
  static const std::regex kPattern(
      R"(\d{4}-\d\d-\d\d|)"
      R"(\d{4}-\d\d?-\d\d?([Tt]|[ \t]+)\d\d?:\d\d:\d\d(\.\d*)?([ \t]*(Z|[-+]\d\d?(:\d\d)?))?)");
  return text.size() < 64 && std::regex_match(text, kPattern);
}

// The designer requires a string here, but its YAML reader parses an unquoted time that ends in
// '+00:00' as a timestamp.
void check_time(const SpecReader& reader, const YAML::Node& time) {
  if (!time.IsDefined() || time.IsNull()) return;
  if (!time.IsScalar()) reader.fail("its key 'time_created' is not a string");
  if (time.Tag() == "?" && is_timestamp(time.Scalar())) {
    reader.fail("its key 'time_created' is not a string but a time (" + shortened(time.Scalar()) +
                "); put it in quotes");
  }
}

void read_parameter(const SpecReader& reader, const std::string& key, const YAML::Node& value,
                    ModelSpec& spec) {
  const NetworkFamily& family = known_network(spec.model_name).family();
  for (const Switch& known : kSwitches) {
    if (key != known.key || !family.allows(key)) continue;
    spec.*known.value = reader.bool_of(value, key);
    return;
  }
  if (key == "model_name") return;
  if (key == "pretrained") {
    spec.pretrained = reader.bool_of(value, key);
  } else if (key == "num_classes") {
    int count = 0;
    if (!YAML::convert<int>::decode(value, count) || count < 1 || count > kMaxClasses) {
      reader.fail("its key 'num_classes' is not a positive integer");
    }
    spec.num_classes = count;
  } else {
    reader.fail("model " + spec.model_name + " has no parameter " + shortened(key));
  }
}

void read_model(const SpecReader& reader, const YAML::Node& extras, ModelSpec& spec) {
  const std::string class_name = reader.text_at(extras, "class");
  const NetworkFamily* family = find_family(class_name);
  if (family == nullptr) reader.fail("its class " + shortened(class_name) + " is unknown");
  const YAML::Node parameters = reader.map_at(extras, "init_params");
  spec.model_name = reader.text_at(parameters, "model_name");
  const KnownNetwork* network = find_network(spec.model_name);
  if (network == nullptr || &network->family() != family) {
    reader.fail("its model_name " + shortened(spec.model_name) + " is not a known " + class_name);
  }
  reader.required(parameters, "pretrained");
  for (const auto& parameter : parameters) {
    if (!parameter.first.IsScalar()) reader.fail("its init_params have a key that is not a string");
    read_parameter(reader, parameter.first.Scalar(), parameter.second, spec);
  }
}

std::array<double, 3> read_channels(const SpecReader& reader, const YAML::Node& parent,
                                    const std::string& key) {
  const YAML::Node list = reader.required(parent, key);
  std::array<double, 3> values{};
  if (!list.IsSequence() || list.size() != values.size()) {
    reader.fail("its key '" + key + "' is not a list of three numbers");
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool is_number = YAML::convert<double>::decode(list[i], values[i]);
    if (!is_number || !std::isfinite(values[i]) || (key == "std" && values[i] <= 0)) {
      reader.fail("its key '" + key + "' is not a list of three valid numbers");
    }
  }
  return values;
}

void read_inputs(const SpecReader& reader, const YAML::Node& inputs, ModelSpec& spec) {
  if (!inputs.IsDefined() || inputs.IsNull()) return;
  if (!inputs.IsSequence() || inputs.size() != 1 || !inputs[0].IsMap()) {
    reader.fail("its key 'inputs' is not a list of one input");
  }
  const YAML::Node processor = inputs[0]["pre_processor"];
  if (!processor.IsDefined() || processor.IsNull()) return;
  if (!processor.IsMap()) reader.fail("its key 'pre_processor' is not a mapping");
  const YAML::Node parameters = reader.map_at(processor, "init_params");
  spec.normalization = Normalization{read_channels(reader, parameters, "mean"),
                                     read_channels(reader, parameters, "std")};
}

ModelSpec read_spec(const SpecReader& reader, const YAML::Node& root) {
  if (!root.IsMap()) reader.fail("it is not a mapping");
  if (root["file_name"].IsDefined()) {
    reader.fail(
        "its key 'file_name' says that the model is a pickled Python object, not a state dict");
  }
  const YAML::Node flavor = reader.map_at(root, "flavor");
  if (const std::string name = reader.text_at(flavor, "name"); name != "pytorch") {
    reader.fail("its flavor " + shortened(name) + " is not pytorch");
  }
  if (flavor["serialization_method"].IsDefined() &&
      reader.text_at(flavor, "serialization_method") != "state_dict") {
    reader.fail("its serialization_method is not state_dict");
  }
  ModelSpec spec;
  spec.model_file = reader.text_at(root, "model_file");
  if (!is_file_name(spec.model_file)) {
    reader.fail("its model_file " + shortened(spec.model_file) + " is a path, not a file name");
  }
  check_time(reader, root["time_created"]);
  read_model(reader, reader.map_at(root, "flavor_extras"), spec);
  read_inputs(reader, root["inputs"], spec);
  return spec;
}

// The text as is, if every YAML reader parses it as a string; otherwise in double quotes.
std::string yaml_text(std::string_view text) {
  static const std::regex kPlain(R"([A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9_-])");
  static const std::regex kWord("true|false|null|yes|no|on|off", std::regex::icase);
  static const std::regex kOwnTime(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+\d{4})");
  std::string copy(text);
  const bool plain = std::regex_match(copy, kPlain) && !std::regex_match(copy, kWord);
  if (plain || std::regex_match(copy, kOwnTime)) return copy;
  YAML::Emitter emitter;
  emitter << YAML::DoubleQuoted << copy;
  return emitter.c_str();
}

std::string yaml_bool(bool value) {
  return value ? "true" : "false";
}

std::string yaml_list(const std::array<double, 3>& values) {
  std::string out;
  for (const double value : values) {
    char digits[400];
    const auto end =
        std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed).ptr;
    std::string text(digits, end);
    if (text.find('.') == std::string::npos) text += ".0";
    out += "      - " + text + '\n';
  }
  return out;
}

}  // namespace

DirectoryMeta parse_directory_meta(std::string_view yaml, const std::string& where) {
  if (yaml.size() > kMaxMeta) throw meta_fault(where, "is larger than 64 KiB");
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    if (!root.IsMap()) throw meta_fault(where, "is not a mapping");
    DirectoryMeta meta{scalar_at(root, "type"), scalar_at(root, "model")};
    if (meta.type.empty()) throw meta_fault(where, "has no key 'type'");
    if (meta.type == "ModelDirectory" && meta.model_spec.empty())
      throw meta_fault(where, "has no key 'model'");
    if (!meta.model_spec.empty() && !is_file_name(meta.model_spec)) {
      throw meta_fault(where, "has the path '" + meta.model_spec + "' instead of a file name");
    }
    return meta;
  } catch (const YAML::Exception& fault) {
    throw meta_fault(where, std::string("is not valid YAML (") + fault.what() + ")");
  }
}

DirectoryMeta read_directory_meta(const std::filesystem::path& meta_path) {
  const std::string where = meta_path.string();
  try {
    return parse_directory_meta(read_text(meta_path, kMaxMeta), where);
  } catch (const std::length_error&) {
    throw meta_fault(where, "is larger than 64 KiB");
  } catch (const std::system_error& fault) {
    throw meta_fault(where, "cannot be read (" + fault.code().message() + ")");
  }
}

ModelSpec parse_model_spec(std::string_view yaml, const std::string& where) {
  const SpecReader reader(where);
  if (yaml.size() > kMaxSpec) reader.fail("it is larger than 64 KiB");
  try {
    return read_spec(reader, YAML::Load(std::string(yaml)));
  } catch (const YAML::Exception& fault) {
    reader.fail(std::string("it is not valid YAML (") + fault.what() + ")");
  }
}

std::string format_model_spec(const ModelSpec& spec, std::string_view time_created) {
  const NetworkFamily& family = known_network(spec.model_name).family();
  std::string yaml = "flavor:\n  name: pytorch\n  serialization_method: state_dict\n";
  yaml += "model_file: " + yaml_text(spec.model_file) + '\n';
  yaml += "time_created: " + yaml_text(time_created) + '\n';
  yaml += "flavor_extras:\n  module: " + std::string(kModulePrefix);
  yaml += std::string(family.designer_module) + "\n  class: " + std::string(family.name);
  yaml += "\n  is_cuda: false\n  init_params:\n";
  yaml += "    model_name: " + yaml_text(spec.model_name) + '\n';
  yaml += "    pretrained: " + yaml_bool(spec.pretrained) + '\n';
  for (const Switch& known : kSwitches) {
    if (family.allows(known.key))
      yaml += "    " + std::string(known.key) + ": " + yaml_bool(spec.*known.value) + '\n';
  }
  if (spec.num_classes) yaml += "    num_classes: " + std::to_string(*spec.num_classes) + '\n';
  yaml += "task_type: MultiClassification\n";
  if (spec.num_classes) yaml += "label_map_file: index_to_label.csv\n";
  if (spec.normalization) {
    yaml +=
        "inputs:\n- name: image\n  pre_processor:\n"
        "    module: azureml.designer.core.model.model_spec.builtin_model_meta.pre_processor\n"
        "    class: ImageNormalizer\n    init_params:\n      mean:\n";
    yaml +=
        yaml_list(spec.normalization->mean) + "      std:\n" + yaml_list(spec.normalization->std);
  }
  return yaml;
}

}  // namespace kiln
