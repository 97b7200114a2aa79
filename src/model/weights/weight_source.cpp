#include "model/weights/weight_source.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/bytes.h"
#include "base/content_hash.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/output_folder.h"
#include "base/text.h"
#include "data/archive/archive.h"
#include "model/catalogue.h"
#include "model/weights/timm_names.h"
#include "store/checkpoint.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxLabelMap = 64 << 20;
constexpr std::uint64_t kMaxFacts = 16 << 20;  // Hugging Face's JSON, which may name all classes

// A fault names the packed model, since its files are in a folder that is gone then.
ModelDirectory read_packed_model(const fs::path& path) {
  const TemporaryFolder folder = unpacked_model(path);
  try {
    return read_model_directory(folder.path());
  } catch (const Error& fault) {
    throw Error(ErrorCode::kInvalidModelDirectory,
                "The packed model " + quoted_path(path) + " cannot be used: " + fault.message());
  }
}

using Json = nlohmann::json;

constexpr std::string_view kPackedName = "model.tar.gz";  // SageMaker's name for it
// What wrappers of modules add to a name: DataParallel, AveragedModel and DeepSpeed, torch.compile,
// Lightning's modules and strategies, FSDP, activation checkpointing. No network has such a part.
constexpr std::array<std::string_view, 6> kWrappers{"module",
                                                    "_orig_mod",
                                                    "model",
                                                    "_forward_module",
                                                    "_fsdp_wrapped_module",
                                                    "_checkpoint_wrapped_module"};
constexpr std::size_t kMaxNetworks = 20;  // in one state dict; more are not offered
constexpr const char* kForms =
    "Give a state dict (.pth or .safetensors), a model directory, model.tar.gz or a checkpoint.";

[[noreturn]] void fail(const fs::path& path, const std::string& fault) {
  throw Error(ErrorCode::kInvalidModelDirectory,
              "--weights " + quoted_path(path) + " cannot be used: " + fault + ". " + kForms);
}

// The name without the parts that wrappers add.
std::string unwrapped(std::string_view name) {
  std::string own;
  while (true) {
    const std::size_t dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    const bool is_wrapper = std::find(kWrappers.begin(), kWrappers.end(), part) != kWrappers.end();
    if (dot == std::string_view::npos) return own.append(part);
    if (!is_wrapper) own.append(part).append(".");
    name.remove_prefix(dot + 1);
  }
}

// Keeps the tensors whose names begin with `prefix` and a dot, without that. False: it is empty, or
// no name does.
bool keep_below(StateDict& state, const std::string& prefix) {
  const std::string start = prefix + ".";
  const auto is_outside = [&](const StoredTensor& tensor) {
    return !tensor.name.starts_with(start);
  };
  if (prefix.empty() || std::all_of(state.begin(), state.end(), is_outside)) return false;
  std::erase_if(state, is_outside);
  for (StoredTensor& tensor : state) tensor.name.erase(0, start.size());
  return true;
}

// Throws FormatFault if two tensors get the same name.
void rename_all(StateDict& state, const auto& new_name) {
  std::unordered_map<std::string, std::string> old_names;  // by new name
  for (StoredTensor& tensor : state) {
    std::string name = new_name(tensor.name);
    const auto [other, is_new] = old_names.emplace(name, tensor.name);
    if (!is_new)
      throw FormatFault("its tensors '" + other->second + "' and '" + tensor.name + "' are both '" +
                        name +
                        "' of the network; add #PREFIX to take those whose names begin with it");
    tensor.name = std::move(name);
  }
}

// What the names of each network in a state dict begin with; first an empty one, if there is one.
std::vector<std::string> networks_in(const StateDict& state) {
  std::set<std::string_view> layers{"patch_embed.proj.weight", "conv_stem.weight",
                                    "stem.0.weight"};  // timm's
  for (const NetworkFamily& family : network_families()) layers.insert(family.first_layer);
  std::vector<std::string> prefixes;
  for (const StoredTensor& tensor : state) {
    if (tensor.shape.size() != 4 || tensor.shape[1] != 3) continue;
    const std::string name = unwrapped(tensor.name);
    for (const std::string_view layer : layers) {
      if (name == layer) prefixes.insert(prefixes.begin(), "");
      if (name.ends_with("." + std::string(layer)) && prefixes.size() < kMaxNetworks)
        prefixes.push_back(name.substr(0, name.size() - layer.size() - 1));
    }
  }
  return prefixes;
}

// The mean and the standard deviation in an object; empty if they are not there.
std::optional<Normalization> normalization_in(const Json& data) try {
  const Json *mean = member_of(data, "mean"), *std = member_of(data, "std");
  if (mean == nullptr || std == nullptr || mean->size() != 3 || std->size() != 3) return {};
  const Normalization found{mean->get<std::array<double, 3>>(), std->get<std::array<double, 3>>()};
  return std::ranges::all_of(found.std, [](double s) { return s > 0; }) ? std::optional(found)
                                                                        : std::nullopt;
} catch (const Json::exception&) {  // they are no lists of numbers
  return {};
}

// The classes by row of the last layer that a JSON object names, in a list or by number, which may
// be in a text, as in the metadata of safetensors; empty if it names none.
std::vector<std::string> classes_in(const Json& facts) try {
  std::vector<std::string> classes;
  for (const char* key : {"classes", "class_names", "label_names", "id2label"}) {
    const Json* found = classes.empty() ? member_of(facts, key) : nullptr;
    if (found == nullptr) continue;
    const Json names = found->is_string() ? parse_json(found->get<std::string>()) : *found;
    for (std::size_t row = 0; row < names.size(); ++row) {
      const Json* name = names.is_array() ? &names[row] : member_of(names, std::to_string(row));
      if (name == nullptr || !name->is_string()) return {};
      classes.push_back(name->get<std::string>());
    }
  }
  return classes;
} catch (const JsonFault&) {
  return {};
}

// The images that a checkpoint's run has read, as run/checkpoint/image_hashes.h packs them: an
// index and a hash each.
SeenImages seen_by(const StateDict& tensors) {
  std::vector<std::uint64_t> train, valid;
  for (const StoredTensor& tensor : tensors) {
    if (!tensor.name.starts_with("rank.")) continue;
    const bool trains = tensor.name.ends_with(".train_hashes");
    if (!trains && !tensor.name.ends_with(".valid_hashes")) continue;
    for (std::string_view pairs = tensor.bytes; pairs.size() >= 2 * sizeof(std::uint64_t);) {
      value_from<std::uint64_t>(pairs);
      (trains ? train : valid).push_back(value_from<std::uint64_t>(pairs));
    }
  }
  return make_seen_images(std::move(train), std::move(valid));
}

WeightSource weights_of_checkpoint(const fs::path& path) {
  std::vector<std::string> skipped;
  Checkpoint checkpoint = read_checkpoint(path, skipped);
  WeightSource source;
  source.where = path.string();
  source.kind = checkpoint.path.filename().string();
  source.trained = true;
  source.seen = seen_by(checkpoint.tensors);
  source.state = std::move(checkpoint.best);
  if (source.state.empty()) {
    if (std::ranges::any_of(checkpoint.tensors, [](const StoredTensor& tensor) {
          return tensor.name.starts_with("average.");
        }))
      source.kind += ", without a finished epoch: the weights themselves, not their --ema average";
    if (keep_below(checkpoint.tensors, "model")) source.state = std::move(checkpoint.tensors);
  }
  // What is missing or malformed in the first line of its record stays unknown, because the weights
  // can be used without it.
  try {
    const Json start = parse_json(first_line(checkpoint.record));
    if (const Json* data = member_of(start, "data"); data != nullptr && data->is_object()) {
      source.classes = classes_in(*data);
      source.normalization = normalization_in(*data);
    }
  } catch (const JsonFault&) {
  }
  return source;
}

bool is_directory_with_model(const fs::path& path) {
  return is_there(path / kMetaFile) || is_half_replaced(path);
}

// Returns `path` if it is a packed model, or the packed model in the folder `path`. Empty if there
// is none, or if the folder is a model directory itself. Throws std::system_error if a file cannot
// be read.
fs::path packed_model_at(const fs::path& path) {
  if (is_there(path) && !is_folder(path)) {
    const OpenFile file(path);
    return is_compressed(file) || is_tar(file) ? path : fs::path();
  }
  if (is_directory_with_model(path) || !is_there(path / kPackedName)) return {};
  return path / kPackedName;
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : ".";
}

// Takes the classes, the normalization and the seen images from a model directory's other files, if
// the weights are one of its two weights files.
void add_facts_beside(const fs::path& path, WeightSource& source) {
  const fs::path folder = folder_of(path);
  if (path.filename() != kModelFile && path.filename() != kSafetensorsFile) return;
  if (is_directory_with_model(folder)) {
    const ModelSpec spec = read_model_spec(folder);
    source.normalization = spec.normalization;
    source.trained = spec.num_classes.has_value();
    source.network = spec.model_name;
  }
  if (const fs::path pixels = folder / kPreprocessingFile; is_file(pixels))
    source.normalization =
        parse_preprocessing(read_file(pixels, kMaxLabelMap), pixels.string()).normalization;
  if (const fs::path labels = folder / kLabelMapFile; is_file(labels))
    source.classes = parse_label_map(read_file(labels, kMaxLabelMap));
  if (const fs::path seen = folder / kSeenImagesFile; is_file(seen))
    source.seen = parse_seen_images(read_file(seen, kMaxSeenImages), seen.string());
}

// "its state_dict; for another, add #state_dict_ema"
std::string kind_of(const StateDictParts& parts) {
  std::vector<std::string> others;
  for (const std::string& name : parts.names)
    if (!(parts.taken + ".").starts_with(name + ".")) others.push_back("#" + name);
  return (parts.taken.empty() ? "a state dict" : "its " + parts.taken) +
         (others.empty() ? "" : "; for another, add " + joined(others, " or "));
}

// Whether the last network in a name or a path is one of timm's with TensorFlow's weights.
bool is_tensorflows(std::string_view name) {
  const std::string small = in_small_letters(name);
  const std::size_t mobilenet = small.rfind("mobilenet"),
                    efficientnet = small.rfind("efficientnet");
  const std::size_t found = mobilenet + 1 > efficientnet + 1 ? mobilenet : efficientnet;
  return found != small.npos && small.substr(0, found).ends_with("tf_");
}

// Hugging Face's files all have one name; config.json beside them has the network's, its classes,
// and how its images were normalized.
bool is_of_one_name(const fs::path& file) {
  return file.filename() == kSafetensorsFile || file.filename() == "pytorch_model.bin";
}

// Returns the name of the network, or the path, which may have it; sets the rest.
std::string read_config_beside(const fs::path& file, WeightSource& source) {
  const fs::path config = file.parent_path() / "config.json";
  if (!is_of_one_name(file) || !is_there(config)) return file.string();
  try {
    const Json facts = parse_json(read_file(config, kMaxFacts));
    source.classes = classes_in(facts);
    if (const Json* pixels = member_of(facts, "pretrained_cfg"))
      source.normalization = normalization_in(*pixels);
    if (const Json* name = member_of(facts, "architecture"); name != nullptr && name->is_string())
      return name->get<std::string>();
  } catch (const std::exception& fault) {  // unreadable, too large or no JSON
    source.kind = std::string("; config.json is passed over: ") + fault.what();
  }
  return file.string();
}

// Takes the classes from where the file itself or its owner names them: its metadata, or else the
// lines of NAME.classes.txt beside NAME.pth, which go before config.json.
void add_classes(fs::path file, std::string_view bytes, WeightSource& source) {
  std::vector<std::string> classes;
  if (const std::string_view rest = bytes.substr(std::min<std::size_t>(bytes.size(), 8));
      rest.starts_with('{')) {
    const auto size = little_endian<std::uint64_t>(bytes, 0, "the header's length");
    const Json header = parse_json(rest.substr(0, size));
    if (const Json* metadata = member_of(header, "__metadata__")) classes = classes_in(*metadata);
  }
  if (is_there(file.replace_extension("classes.txt"))) {
    classes.clear();
    const std::string text = read_text(file, kMaxLabelMap);
    for (std::string_view rest = text; !rest.empty();)
      if (const std::string_view name = trimmed(take_line(rest)); !name.empty())
        classes.emplace_back(name);
    if (std::set<std::string>(classes.begin(), classes.end()).size() < classes.size())
      throw FormatFault(quoted_path(file) + " names a class twice");
  }
  if (!classes.empty()) source.classes = std::move(classes);
}

// Throws FormatFault for weights that Hugging Face's libraries have divided: for their index, one
// of the files, or the folder.
void refuse_shards(const fs::path& path) {
  static const std::regex kShard(R"((?:.*-\d{5}-of-(\d{5})\.\w+|.*\.index\.json))");
  std::smatch parts;
  for (const std::string& name :
       is_folder(path) ? names_in(path) : std::vector{path.filename().string()})
    if (std::regex_match(name, parts, kShard) && parts[1] != "00001")
      throw FormatFault(
          quoted_beginning(name) + " is " +
          (parts[1].matched ? "one of " + std::to_string(std::stoi(parts[1])) + " shards"
                            : "the index of shards") +
          " of weights; join them in Python: safetensors.torch.save_file({k: v for f in FILES for "
          "k, v in safetensors.torch.load_file(f).items()}, 'weights.safetensors')");
}

// Throws FormatFault for networks of timm's that have the tensors of known ones and filter what
// those do not, as only their names tell.
void refuse_filtered(const fs::path& timm_name) {
  const auto refuse_in = [](const std::string& name) {
    for (const char* part : {"resnetaa", "resnetblur", "efficientnet_blur"})
      if (name.find(part) != name.npos)
        throw FormatFault("they are of " + std::string(part) +
                          "…, which smooths maps before it halves them, as no network here does");
  };
  refuse_in(in_small_letters(timm_name.filename().string()));
  if (!is_of_one_name(timm_name)) return;
  refuse_in(in_small_letters(timm_name.parent_path().filename().string()));
  for (const fs::path& folder : timm_name.parent_path())  // models--timm--resnetblur50.bt_in1k
    if (folder.string().starts_with("models--")) refuse_in(in_small_letters(folder.string()));
}

WeightSource weights_of_file(const fs::path& path, const std::string& part) {
  WeightSource source;
  source.where = path.string();
  StateDictParts parts;
  parts.wanted = part;
  refuse_shards(path);
  const std::string bytes = read_state_dict_file(path);
  source.state = read_state_dict(bytes, parts);
  const std::string timm_name = read_config_beside(path, source);
  refuse_filtered(timm_name);
  if (const KnownNetwork* known = find_network(timm_name)) source.network = known->name;
  if (!source.normalization && is_of_half(path.filename().string()))  // of fetch_file()
    source.normalization = Normalization{{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}};
  const std::string assumed = to_own_names(source.state, parts, timm_name);
  source.kind = kind_of(parts) + assumed + source.kind;
  add_classes(path, bytes, source);
  add_facts_beside(path, source);
  return source;
}

[[noreturn]] void fail_to_read(const std::string& given, const std::string& reason,
                               std::string_view network) {
  const KnownNetwork* known = find_network(network);
  std::string remedy = did_you_mean_path(given) + " " + kForms;
  if (known != nullptr && find_published(*known, "torchvision") != nullptr)
    remedy += " Published weights of " + std::string(network) + ": --weights torchvision.";
  throw Error(ErrorCode::kInvalidModelDirectory,
              "--weights " + quoted_path(given) + " cannot be read (" + reason + ")." + remedy);
}

}  // namespace

std::string to_own_names(StateDict& state, StateDictParts& parts, std::string_view timm_name) {
  const auto enter = [&parts](const std::string& name) {
    return parts.taken + (parts.taken.empty() || name.empty() ? "" : ".") + name;
  };
  // Counters of a wrapper, or of BatchNorm in a form that a network does not have: averaged, say.
  std::erase_if(state, [](const StoredTensor& tensor) {
    const std::string_view last = std::string_view(tensor.name).substr(tensor.name.rfind('.') + 1);
    return last == "n_averaged" || (last == "num_batches_tracked" &&
                                    (tensor.dtype != DType::kInt64 || !tensor.shape.empty()));
  });
  for (const std::string& prefix : networks_in(state))
    if (!prefix.empty()) parts.names.push_back(enter(prefix));
  const bool is_below = keep_below(state, parts.wanted);
  rename_all(state, unwrapped);
  if (!is_below && !parts.wanted.empty() && !keep_below(state, parts.wanted))
    throw FormatFault(parts.fault());
  parts.taken = enter(std::exchange(parts.wanted, ""));
  const std::vector<std::string> networks = networks_in(state);
  const bool is_whole = networks.empty() || networks.front().empty();
  if (!is_whole && networks.size() > 1) throw FormatFault(parts.fault());
  std::erase_if(state, [&](const StoredTensor& tensor) {
    return is_whole && std::ranges::any_of(networks, [&](const std::string& other) {
             return !other.empty() && tensor.name.starts_with(other + ".");
           });
  });
  const std::string prefix = is_whole ? "" : networks.front() + ".";
  if (!is_whole) parts.taken = enter(networks.front());
  rename_all(state, [&](const std::string& name) {
    const std::string own = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    return (own.starts_with(kOutputLayer) ? "" : std::string(kModelPrefix)) + own;
  });
  rename_old_densenet_keys(state);
  return rename_to_torchvision(state, is_tensorflows(timm_name));
}

ModelDirectory read_model(const fs::path& path) try {
  const fs::path packed = packed_model_at(path);
  return packed.empty() ? read_model_directory(path) : read_packed_model(packed);
} catch (const std::system_error& fault) {
  throw Error(
      ErrorCode::kInvalidModelDirectory,
      "The model " + quoted_path(path) + " cannot be read (" + fault.code().message() + ").");
}

WeightSource weights_of(ModelDirectory directory, const std::string& where) {
  const bool trained = directory.spec.num_classes.has_value();
  return {.where = where,
          .kind = trained ? "a trained model" : "an untrained model",
          .network = directory.spec.model_name,
          .trained = trained,
          .state = std::move(directory.state),
          .classes = std::move(directory.labels),
          .normalization = directory.preprocessing ? directory.preprocessing->normalization
                                                   : directory.spec.normalization,
          .seen = std::move(directory.seen_images)};
}

WeightSource read_weight_source(const std::string& given, std::string_view network) {
  const auto [file, part] = file_and_part(given);
  const fs::path path = file;
  try {
    const bool is_run = is_checkpoint(path);
    const bool is_model = is_directory_with_model(path) || !packed_model_at(path).empty();
    if (!part.empty() && (is_run || is_model))
      fail(path, "only a file of state dicts has parts such as #" + part);
    if (is_run) return weights_of_checkpoint(path);
    if (is_model) return weights_of(read_model(path), path.string());
    if (is_folder(path)) {
      refuse_shards(path);
      fail(path, "it is a folder, but not a model directory, since it has no " +
                     std::string(kMetaFile) + ", and has no checkpoints");
    }
    WeightSource source;
    read_one_model(folder_of(path), [&, &part = part] { source = weights_of_file(path, part); });
    return source;
  } catch (const FormatFault& fault) {
    fail(path, fault.what());
  } catch (const std::length_error& fault) {
    fail(path, fault.what());
  } catch (const std::system_error& fault) {
    fail_to_read(given, why_unreadable(fault), network);
  }
}

std::string fingerprint_of(const WeightSource& source) {
  ContentHash hash(0);
  for (const StoredTensor& tensor : source.state) {
    hash.add(std::to_string(tensor.name.size()) + ":" + tensor.name);
    hash.add(std::to_string(tensor.bytes.size()) + ":");
    hash.add(tensor.bytes);
  }
  return hex_digits(hash.value());
}

constexpr std::size_t kNamedRows = 10;  // classes listed in the log

static std::string why_fresh(std::int64_t num_classes, std::int64_t num_names,
                             std::int64_t num_rows) {
  std::string text =
      "the last layer is fresh, since the weights have " + plural(num_rows, "output", "outputs");
  if (num_names > 0) return text + " and " + plural(num_names, "named class", "named classes");
  if (num_rows != num_classes)
    return text + " and the data " + plural(num_classes, "class", "classes");
  return "the last layer is fresh, since nothing says which output is which class (their names in "
         "order, one a line, in NAME.classes.txt beside NAME.pth would)";
}

bool ClassRows::any() const {
  return std::ranges::any_of(rows, [](std::int64_t row) { return row != kFreshRow; });
}

ClassRows match_classes(const std::vector<std::string>& classes,
                        const std::vector<std::string>& source_classes, std::int64_t num_rows) {
  if (source_classes.empty() && num_rows == std::ssize(classes)) {
    // Of the folders of ImageNet's 1,000 classes, n01440764 to n15075141, in the order of
    // everybody's outputs.
    constexpr std::uint64_t kImagenets = 0xab7f0e47e1f71370;
    std::vector<std::string> sorted = classes;
    std::ranges::sort(sorted);
    if (content_hash(joined(sorted, "\n")) == kImagenets) {
      ClassRows match = match_classes(classes, sorted, num_rows);
      match.text += " (ImageNet's folders)";
      return match;
    }
  }
  if (std::ssize(source_classes) != num_rows)
    return {std::vector<std::int64_t>(classes.size(), kFreshRow),
            why_fresh(std::ssize(classes), std::ssize(source_classes), num_rows)};
  std::unordered_map<std::string_view, std::int64_t> row_of;
  for (std::size_t row = 0; row < source_classes.size(); ++row)
    row_of.emplace(source_classes[row], static_cast<std::int64_t>(row));
  ClassRows match;
  std::vector<std::string> fresh;
  for (const std::string& name : classes) {
    const auto found = row_of.find(name);
    match.rows.push_back(found == row_of.end() ? kFreshRow : found->second);
    if (found == row_of.end()) fresh.push_back(name);
  }
  if (classes == source_classes)
    match.text = "the last layer is loaded too, since the classes are the same";
  else if (!match.any())
    match.text = "the last layer is fresh, since the weights know none of the classes";
  else if (fresh.empty())
    match.text = "the last layer reuses the rows of the same classes";
  else
    match.text = formatted("the last layer reuses the rows of %zu of %zu classes; fresh: ",
                           classes.size() - fresh.size(), classes.size()) +
                 quoted_names(fresh, kNamedRows);
  return match;
}

}  // namespace kiln
