#include "store/model_spec.h"

#include <yaml-cpp/yaml.h>
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "model/catalogue.h"

namespace kiln {
namespace {

std::string scalar_at(const YAML::Node& root, const char* key) {
  const YAML::Node node = root[key];
  return node.IsDefined() && node.IsScalar() ? node.Scalar() : std::string();
}

Error meta_fault(const std::filesystem::path& path, const std::string& fault) {
  return Error(
      ErrorCode::kInvalidModelDirectory,
      "'" + path.string() + "' " + fault + ". Give a folder written by 'kiln init-model'.");
}

constexpr double kMinDivisor = 1e-6, kMaxDivisor = 1e6;  // beyond, answers are no numbers
constexpr int kMaxClasses = 1'000'000;
constexpr std::string_view kFlavor = "pytorch", kMultiLabelFlavor = "pytorch-multi-label";
constexpr std::string_view kModulePrefix =
    "azureml.designer.modules.dl.pytorch.initialize_models.vision.classification.";

// Of the networks that the designer does not have.
constexpr std::string_view kOwnModule = "kiln.networks";

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

// The designer requires a string here, but its YAML reader parses an unquoted time that ends in
// '+00:00' as a timestamp.
void check_time(const SpecReader& reader, const YAML::Node& time) {
  if (!time.IsDefined() || time.IsNull()) return;
  if (!time.IsScalar()) reader.fail("its key 'time_created' is not a string");
  static const std::regex kPattern(
      R"(\d{4}-\d\d-\d\d|)"
      R"(\d{4}-\d\d?-\d\d?([Tt]|[ \t]+)\d\d?:\d\d:\d\d(\.\d*)?([ \t]*(Z|[-+]\d\d?(:\d\d)?))?)");
  if (time.Tag() == "?" && time.Scalar().size() < 64 && std::regex_match(time.Scalar(), kPattern))
    reader.fail("its key 'time_created' is not a string but a time (" +
                quoted_beginning(time.Scalar(), 100) + "); put it in quotes");
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
    if (!YAML::convert<int>::decode(value, count) || count < 1 || count > kMaxClasses)
      reader.fail("its key 'num_classes' is not a positive integer");
    spec.num_classes = count;
  } else {
    reader.fail("model " + spec.model_name + " has no parameter " + quoted_beginning(key, 100));
  }
}

void read_model(const SpecReader& reader, const YAML::Node& extras, ModelSpec& spec) {
  const std::string class_name = reader.text_at(extras, "class");
  const NetworkFamily* family = find_row(network_families(), class_name);
  if (family == nullptr)
    reader.fail("its class " + quoted_beginning(class_name, 100) + " is unknown");
  const YAML::Node parameters = reader.map_at(extras, "init_params");
  spec.model_name = reader.text_at(parameters, "model_name");
  const KnownNetwork* network = find_network(spec.model_name);
  if (network != nullptr) spec.model_name = network->name;
  if (network == nullptr || &network->family() != family)
    reader.fail("its model_name " + quoted_beginning(spec.model_name, 100) + " is not a known " +
                class_name);
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
  if (!list.IsSequence() || list.size() != values.size())
    reader.fail("its key '" + key + "' is not a list of three numbers");
  const double least = key == "std" ? kMinDivisor : -kMaxDivisor;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!YAML::convert<double>::decode(list[i], values[i]) ||
        !(values[i] >= least && values[i] <= kMaxDivisor))
      reader.fail("its key '" + key + "' is not a list of three valid numbers");
  return values;
}

void read_inputs(const SpecReader& reader, const YAML::Node& inputs, ModelSpec& spec) {
  if (!inputs.IsDefined() || inputs.IsNull()) return;
  if (!inputs.IsSequence() || inputs.size() != 1 || !inputs[0].IsMap())
    reader.fail("its key 'inputs' is not a list of one input");
  const YAML::Node processor = inputs[0]["pre_processor"];
  if (!processor.IsDefined() || processor.IsNull()) return;
  const YAML::Node parameters =
      reader.map_at(reader.map_at(inputs[0], "pre_processor"), "init_params");
  spec.normalization = Normalization{read_channels(reader, parameters, "mean"),
                                     read_channels(reader, parameters, "std")};
}

ModelSpec read_spec(const SpecReader& reader, const YAML::Node& root) {
  if (!root.IsMap()) reader.fail("it is not a mapping");
  if (root["file_name"].IsDefined())
    reader.fail(
        "its key 'file_name' says that the model is a pickled Python object, not a state dict");
  const YAML::Node flavor = reader.map_at(root, "flavor");
  const std::string name = reader.text_at(flavor, "name");
  if (name != kFlavor && name != kMultiLabelFlavor)
    reader.fail("its flavor " + quoted_beginning(name, 100) + " is not pytorch");
  if (flavor["serialization_method"].IsDefined() &&
      reader.text_at(flavor, "serialization_method") != "state_dict")
    reader.fail("its serialization_method is not state_dict");
  ModelSpec spec;
  if (name == kMultiLabelFlavor) spec.task = TaskKind::kMultiLabel;
  spec.model_file = reader.text_at(root, "model_file");
  if (!is_file_name(spec.model_file))
    reader.fail("its model_file " + quoted_beginning(spec.model_file, 100) +
                " is a path, not a file name");
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
    std::string text = shortest_text(value, std::chars_format::fixed);
    if (text.find('.') == std::string::npos) text += ".0";
    out += "      - " + text + '\n';
  }
  return out;
}

}  // namespace

DirectoryMeta read_directory_meta(const std::filesystem::path& path) try {
  const YAML::Node root =
      YAML::Load(read_text_or(path, kMaxMetaBytes, "is larger than 64 KiB",
                              [&](const std::string& fault) { throw meta_fault(path, fault); }));
  if (!root.IsMap()) throw meta_fault(path, "is not a mapping");
  DirectoryMeta meta{scalar_at(root, "type"), scalar_at(root, "model")};
  if (meta.type.empty()) throw meta_fault(path, "has no key 'type'");
  if (meta.type == "ModelDirectory" && meta.model_spec.empty())
    throw meta_fault(path, "has no key 'model'");
  if (!meta.model_spec.empty() && !is_file_name(meta.model_spec))
    throw meta_fault(path, "has the path '" + meta.model_spec + "' instead of a file name");
  return meta;
} catch (const YAML::Exception& fault) {
  throw meta_fault(path, std::string("is not valid YAML (") + fault.what() + ")");
}

ModelSpec parse_model_spec(std::string_view yaml, const std::string& where) {
  const SpecReader reader(where);
  if (yaml.size() > kMaxSpecBytes) reader.fail("it is larger than 64 KiB");
  try {
    return read_spec(reader, YAML::Load(std::string(yaml)));
  } catch (const YAML::Exception& fault) {
    reader.fail(std::string("it is not valid YAML (") + fault.what() + ")");
  }
}

std::string format_model_spec(const ModelSpec& spec, std::string_view time_created) {
  const NetworkFamily& family = known_network(spec.model_name).family();
  const bool is_multi_label = spec.task == TaskKind::kMultiLabel;
  const bool is_own = family.designer_module.empty();
  std::string yaml =
      "flavor:\n  name: " + std::string(is_multi_label ? kMultiLabelFlavor : kFlavor) +
      "\n  serialization_method: state_dict\nmodel_file: " + yaml_text(spec.model_file) +
      "\ntime_created: " + yaml_text(time_created) +
      "\nflavor_extras:\n  module: " + std::string(is_own ? kOwnModule : kModulePrefix) +
      std::string(family.designer_module) + "\n  class: " + std::string(family.name) +
      "\n  is_cuda: false\n  init_params:\n    model_name: " + yaml_text(spec.model_name) +
      "\n    pretrained: " + yaml_bool(spec.pretrained) + '\n';
  for (const Switch& known : kSwitches)
    if (family.allows(known.key))
      yaml += "    " + std::string(known.key) + ": " + yaml_bool(spec.*known.value) + '\n';
  if (spec.num_classes) yaml += "    num_classes: " + std::to_string(*spec.num_classes) + '\n';
  yaml +=
      is_multi_label ? "task_type: MultiLabelClassification\n" : "task_type: MultiClassification\n";
  if (spec.num_classes) yaml += "label_map_file: index_to_label.csv\n";
  if (spec.normalization)
    yaml +=
        "inputs:\n- name: image\n  pre_processor:\n"
        "    module: azureml.designer.core.model.model_spec.builtin_model_meta.pre_processor\n"
        "    class: ImageNormalizer\n    init_params:\n      mean:\n" +
        yaml_list(spec.normalization->mean) + "      std:\n" + yaml_list(spec.normalization->std);
  return yaml;
}

namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1, kVersionWithTransforms = 2, kVersionOfLabels = 2;
constexpr std::int64_t kMaxPixels = 1 << 28;  // more than any decodable image has
constexpr const char* kDivisors = "from 0.000001 to 1000000";
constexpr std::uint64_t kMaxImages = std::uint64_t{1} << 40;
constexpr const char* kTransforms = "transforms";
constexpr const char* kOutOfFold = "out_of_fold";

std::string shown(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60);
}

// A JSON object with a version and known keys.
class JsonFile {
 public:
  // `kind` and `limit`, `max_bytes` in words, are for messages.
  JsonFile(std::string_view json, const std::string& where, const char* kind, std::size_t max_bytes,
           const char* limit)
      : where_(where), kind_(kind) {
    if (json.size() > max_bytes) fail(std::string("it is larger than ") + limit);
    try {
      root_ = parse_json(json, RepeatedKeys::kRefused);
    } catch (const JsonFault& fault) {
      fail(std::string("it ") + fault.what());
    }
    if (!root_.is_object()) fail("it is not a JSON object");
  }

  [[noreturn]] void fail(const std::string& fault) const {
    throw Error(ErrorCode::kInvalidModelDirectory,
                "'" + where_ + "' is not a valid " + kind_ + " file: " + fault +
                    ". Train the model again or copy its complete directory.");
  }

  // `due`: what the value should be.
  [[noreturn]] void refuse(const char* key, const std::string& due) const {
    fail(std::string("its key '") + key + "' is " + shown(at(key)) + " instead of " + due);
  }

  const Json& at(const char* key) const {
    if (!root_.contains(key)) fail(std::string("its key '") + key + "' is missing");
    return root_[key];
  }

  bool bool_at(const char* key) const {
    const Json& value = at(key);
    if (!value.is_boolean()) refuse(key, "true or false");
    return value.get<bool>();
  }

  const Json& root() const { return root_; }

  [[noreturn]] void refuse_version(const std::string& supported) const {
    fail("its version is " + shown(at("version")) + ", but this program supports " + supported);
  }

  void refuse_unknown_keys(std::initializer_list<std::string_view> known) const {
    for (const auto& [key, value] : root_.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail("its key '" + key.substr(0, 100) + "' is unknown");
  }

 private:
  const std::string& where_;
  const char* kind_;
  Json root_;
};

// Returns 0 if `value` is invalid.
int pixels(const Json& value) {
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() <= kMaxPixels;
  return fits ? value.get<int>() : 0;
}

void read_resizing(const JsonFile& file, Preprocessing& result) {
  const Json& side = file.at("resize_short_side");
  if (!side.is_null()) {
    result.resize_short_side = pixels(side);
    if (result.resize_short_side < std::max(result.height, result.width))
      file.refuse("resize_short_side", "null or pixels of at least the input size");
  }
  result.keep_exact_size = file.bool_at("keep_exact_size");
  if (!result.keep_exact_size && side.is_null())
    file.refuse("keep_exact_size", "true if nothing is resized");
}

std::array<double, 3> channels(const JsonFile& file, const char* key, double least,
                               const std::string& due) {
  const Json& list = file.at(key);
  const auto is_due = [least](const Json& value) {
    return value.is_number() && value.get<double>() >= least && value.get<double>() <= kMaxDivisor;
  };
  if (!list.is_array() || list.size() != 3 || !std::all_of(list.begin(), list.end(), is_due))
    file.refuse(key, "three numbers " + due);
  return list.get<std::array<double, 3>>();
}

void read_fit(const JsonFile& file, Preprocessing& result) {
  const Json& name = file.at("fit");
  const auto fit = value_named<Fit>(kFitNames, name.is_string() ? name.get<std::string>() : "");
  if (!fit || *fit == Fit::kCrop) file.refuse("fit", "\"pad\" or \"stretch\"");
  if (result.resize_short_side > 0) file.refuse("resize_short_side", "null with fit");
  result.fit = *fit;
  if (*fit != Fit::kPad) return;
  const std::array<double, 3> fill = channels(file, "fill", 0, "from 0 to 255");
  for (std::size_t c = 0; c < fill.size(); ++c) {
    result.fill[c] = static_cast<std::uint8_t>(std::clamp(fill[c], 0.0, 255.0));
    if (result.fill[c] != fill[c]) file.refuse("fill", "three whole numbers, each a byte");
  }
}

}  // namespace

Preprocessing parse_preprocessing(std::string_view json, const std::string& where) {
  const JsonFile file(json, where, "preprocessing", 1 << 16, "64 KiB");
  const Json& version = file.at("version");
  if (version != kVersion && version != kVersionWithTransforms)
    file.refuse_version("versions 1 and 2");
  const bool has_transforms = version == kVersionWithTransforms;
  file.refuse_unknown_keys({"version", "exif", "resize_short_side", "keep_exact_size", "input_size",
                            "mean", "std", has_transforms ? kTransforms : "fit",
                            has_transforms ? kTransforms : "fill"});
  Preprocessing result;
  if (file.root().contains("exif")) {
    const Json& name = file.at("exif");
    const auto exif =
        value_named<Exif>(kExifNames, name.is_string() ? name.get<std::string>() : "");
    if (!exif) file.refuse("exif", "\"apply\" or \"ignore\"");
    result.exif = *exif;
  }
  const Json& size = file.at("input_size");
  if (size.is_array() && size.size() == 2) {
    result.height = pixels(size[0]);
    result.width = pixels(size[1]);
  }
  const std::int64_t area = std::int64_t{result.height} * result.width;
  if (area < 1 || area > kMaxPixels) file.refuse("input_size", "a height and a width in pixels");
  read_resizing(file, result);
  if (has_transforms) {
    const Json& operations = file.at(kTransforms);
    if (!operations.is_array()) file.refuse(kTransforms, "a list of operations");
    if (result.resize_short_side > 0) file.refuse("resize_short_side", "null with transforms");
    result.transforms = operations.dump();
  }
  if (file.root().contains("fit")) read_fit(file, result);
  result.normalization = {channels(file, "mean", -kMaxDivisor, "from -1000000 to 1000000"),
                          channels(file, "std", kMinDivisor, kDivisors)};
  return result;
}

namespace {

std::vector<AnswerBin> parse_answers(const JsonFile& file, const char* key, const Json& given) {
  std::vector<AnswerBin> bins;
  const auto is_count = [](const Json& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() <= kMaxImages;
  };
  for (const Json& bin : given) {
    const bool is_bin = bin.is_array() && bin.size() == 3 && bin[0].is_number() &&
                        is_count(bin[1]) && is_count(bin[2]) &&
                        bin[2].get<std::uint64_t>() <= bin[1].get<std::uint64_t>();
    const double from = is_bin ? bin[0].get<double>() : -1;
    if (!(from >= 0 && from <= 1) || (!bins.empty() && from <= bins.back().from))
      file.fail(std::string("its key '") + key + "' has " + shown(bin) +
                " instead of a higher confidence, images, and correct images");
    bins.push_back({from, bin[1].get<std::int64_t>(), bin[2].get<std::int64_t>()});
  }
  return bins;
}

nlohmann::ordered_json answers_json(const std::vector<AnswerBin>& bins) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const AnswerBin& bin : bins) json.push_back({bin.from, bin.images, bin.right});
  return json;
}

std::vector<LabelCalibration> parse_labels(const JsonFile& file) {
  file.refuse_unknown_keys({"version", "classes"});
  const Json& classes = file.at("classes");
  if (!classes.is_array() || classes.empty()) file.refuse("classes", "a list");
  std::vector<LabelCalibration> labels;
  for (const Json& one : classes) {
    const bool has_all = one.is_array() && one.size() == 3 && one[0].is_number() &&
                         one[1].is_number() && one[2].is_array();
    const double temperature = has_all ? one[0].get<double>() : 0;
    const double threshold = has_all ? one[1].get<double>() : 0;
    if (!(temperature >= kMinDivisor && temperature <= kMaxDivisor && threshold >= 0 &&
          threshold <= 1))
      file.fail("its key 'classes' has " + shown(one) + " instead of a temperature " + kDivisors +
                ", a threshold from 0 to 1 and a list of answers");
    labels.push_back({temperature, threshold, parse_answers(file, "classes", one[2])});
  }
  return labels;
}

}  // namespace

Calibration parse_calibration(std::string_view json, const std::string& where) {
  const JsonFile file(json, where, "calibration", kMaxCalibrationBytes, "64 MiB");
  const Json& version = file.at("version");
  if (version == kVersionOfLabels) return {1, {}, parse_labels(file)};
  if (version != kVersion) file.refuse_version("versions 1 and 2");
  file.refuse_unknown_keys({"version", "temperature", "answers", kOutOfFold});
  const Json& temperature = file.at("temperature");
  Calibration calibration{temperature.is_number() ? temperature.get<double>() : 0, {}};
  if (!(calibration.temperature >= kMinDivisor && calibration.temperature <= kMaxDivisor))
    file.refuse("temperature", std::string("a number ") + kDivisors);
  const Json& answers = file.at("answers");
  if (!answers.is_array()) file.refuse("answers", "a list");
  calibration.answers = parse_answers(file, "answers", answers);
  if (file.root().contains(kOutOfFold)) calibration.out_of_fold = file.bool_at(kOutOfFold);
  return calibration;
}

std::string format_calibration(const Calibration& calibration) {
  const bool is_of_labels = !calibration.labels.empty();
  nlohmann::ordered_json json = {{"version", is_of_labels ? kVersionOfLabels : kVersion}};
  for (const LabelCalibration& label : calibration.labels)
    json["classes"].push_back({label.temperature, label.threshold, answers_json(label.answers)});
  if (!is_of_labels) {
    json["temperature"] = calibration.temperature;
    json["answers"] = answers_json(calibration.answers);
    if (calibration.out_of_fold) json[kOutOfFold] = true;
  }
  return json.dump() + "\n";
}

std::string format_preprocessing(const Preprocessing& preprocessing) {
  const int side = preprocessing.resize_short_side;
  const bool has_transforms = !preprocessing.transforms.empty();
  nlohmann::ordered_json json = {
      {"version", has_transforms ? kVersionWithTransforms : kVersion},
      {"exif", exif_name(preprocessing.exif)},
      {"resize_short_side", side > 0 ? nlohmann::ordered_json(side) : nlohmann::ordered_json()},
      {"keep_exact_size", preprocessing.keep_exact_size},
      {"input_size", {preprocessing.height, preprocessing.width}},
      {"mean", preprocessing.normalization.mean},
      {"std", preprocessing.normalization.std}};
  if (has_transforms) json[kTransforms] = nlohmann::ordered_json::parse(preprocessing.transforms);
  if (preprocessing.fit != Fit::kCrop) json["fit"] = fit_name(preprocessing.fit);
  if (preprocessing.fit == Fit::kPad) json["fill"] = preprocessing.fill;
  return json.dump(2, ' ', /*ensure_ascii=*/true) + "\n";
}

}  // namespace kiln
