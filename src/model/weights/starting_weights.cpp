#include "model/weights/starting_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "model/positions.h"

namespace kiln {
namespace {

// In the order of DType.
constexpr std::array kTypes{at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,
                            at::kInt,    at::kShort, at::kChar, at::kByte,     at::kBool};

DType stored_type(at::ScalarType type) {
  const auto* const found = std::find(kTypes.begin(), kTypes.end(), type);
  if (found == kTypes.end())
    throw InternalError(std::string("a model has a tensor of type ") + c10::toString(type));
  return static_cast<DType>(found - kTypes.begin());
}

at::ScalarType torch_type(DType type) {
  return kTypes.at(static_cast<std::size_t>(type));
}

std::string shape_text(at::IntArrayRef shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

using TensorsByName = std::unordered_map<std::string_view, const StoredTensor*>;

TensorsByName by_name(const StateDict& state) {
  TensorsByName tensors;
  for (const StoredTensor& tensor : state) tensors.emplace(tensor.name, &tensor);
  return tensors;
}

// "; missing: a, b, c, d, e, … (12 in all)"; empty if there are no names.
std::string listing(const std::string& title, const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  if (names.empty()) return "";
  std::string text = "; " + title + ": ";
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += (i ? ", " : "") + names[i];
  if (names.size() > kShown) text += ", … (" + std::to_string(names.size()) + " in all)";
  return text;
}

std::string misfit(const at::Tensor& own, const StoredTensor& stored) {
  if (own.sizes() != at::IntArrayRef(stored.shape))
    return stored.name + " has shape " + shape_text(stored.shape) + " instead of " +
           shape_text(own.sizes());
  const at::ScalarType type = torch_type(stored.dtype);
  if (at::isFloatingType(type) != at::isFloatingType(own.scalar_type()))
    return stored.name + " holds " + c10::toString(type) + " instead of " +
           c10::toString(own.scalar_type());
  return "";
}

// What the names of the last linear layer's tensors begin with: "model.fc.".
std::string head_prefix(const ImageModel& model) {
  const std::string weight = model.head().front().name;
  return weight.substr(0, weight.rfind('.') + 1);
}

// Whether a tensor is one of the last layers', of which `head` is head_prefix().
bool is_last(const std::string& name, const std::string& head) {
  return name.starts_with(head) || name.starts_with(kOutputLayer);
}

}  // namespace

StateDict to_state_dict(const ImageModel& model) {
  return to_state_dict(model.state());
}

StateDict to_state_dict(std::vector<NamedTensor> tensors) {
  StateDict state;
  for (NamedTensor& sample : tensors) {
    const at::Tensor plain = sample.tensor.detach().to(at::kCPU).contiguous();
    sample.tensor.reset();
    const TensorView view = view_of(NamedTensor{sample.name, plain});
    state.push_back({view.name, view.dtype, view.shape, std::string(view.bytes)});
  }
  return state;
}

TensorView view_of(const NamedTensor& item) {
  return {item.name,
          stored_type(item.tensor.scalar_type()),
          item.tensor.sizes().vec(),
          {static_cast<const char*>(item.tensor.const_data_ptr()), item.tensor.nbytes()}};
}

at::Tensor view_of(const TensorView& stored) {
  return at::from_blob(const_cast<char*>(stored.bytes.data()), stored.shape,
                       at::TensorOptions().dtype(torch_type(stored.dtype)));
}

at::Tensor view_of(const StoredTensor& stored) {
  return view_of(TensorView{stored.name, stored.dtype, stored.shape, stored.bytes});
}

std::string differences(const std::vector<NamedTensor>& targets, const StateDict& stored) {
  TensorsByName unclaimed = by_name(stored);
  std::vector<std::string> missing, unexpected, misfits;
  for (const NamedTensor& sample : targets) {
    const auto found = unclaimed.find(sample.name);
    if (found == unclaimed.end()) {
      missing.push_back(sample.name);
      continue;
    }
    if (std::string fault = misfit(sample.tensor, *found->second); !fault.empty())
      misfits.push_back(std::move(fault));
    unclaimed.erase(found);
  }
  for (const StoredTensor& tensor : stored)
    if (unclaimed.contains(tensor.name)) unexpected.push_back(tensor.name);
  return listing("missing", missing) + listing("unexpected", unexpected) +
         listing("mismatched shape or type", misfits);
}

void load_tensors(const std::vector<NamedTensor>& targets, const StateDict& stored,
                  const std::string& where) {
  if (const std::string text = differences(targets, stored); !text.empty())
    throw Error(ErrorCode::kInvalidModelDirectory, "The weights in '" + where +
                                                       "' do not match this network" + text +
                                                       ". Give weights of the named model.");
  const TensorsByName found = by_name(stored);
  const at::NoGradGuard no_grad;
  for (const NamedTensor& target : targets)
    at::Tensor(target.tensor).copy_(view_of(*found.at(target.name)));
}

std::unique_ptr<ImageModel> loaded_model(const ModelDirectory& directory,
                                         const std::string& where) {
  const ModelSpec& spec = directory.spec;
  auto model =
      make_image_model({.model_name = spec.model_name,
                        .num_classes = spec.num_classes.value_or(ModelOptions().num_classes),
                        .with_output_layer = spec.pretrained && spec.num_classes,
                        .is_initialized = false});
  load_tensors(model->state(), directory.state, where);
  return model;
}

void load_pretrained(ImageModel& model, const StateDict& stored, const std::string& where) {
  StateDict whole;
  for (const StoredTensor& tensor : stored)
    if (!tensor.name.starts_with(kOutputLayer)) whole.push_back(tensor);
  for (StoredTensor& fresh : to_state_dict(model))
    if (fresh.name.starts_with(kOutputLayer)) whole.push_back(std::move(fresh));
  load_tensors(model.state(), whole, where);
}

void check_untrained(const ImageModel& model, const StateDict& stored, const std::string& where) {
  const std::string head = head_prefix(model);
  const TensorsByName tensors = by_name(stored);
  for (const NamedTensor& wanted : model.state()) {
    if (wanted.name.starts_with(head)) continue;
    const auto found = tensors.find(wanted.name);
    const std::string what = found == tensors.end() ? "is missing"
                             : found->second->shape != wanted.tensor.sizes().vec()
                                 ? "has the wrong shape for"
                                 : "";
    if (!what.empty())
      throw Error(ErrorCode::kInvalidModelDirectory,
                  "'" + where + "' " + what + " the tensor '" + wanted.name +
                      "' of the network named in model_spec.yaml: create the directory again with "
                      "`kiln init-model`.");
  }
}

namespace {

std::string torchvision_name(const std::string& name) {
  return name.starts_with(kModelPrefix) ? name.substr(kModelPrefix.size()) : name;
}

std::string first_part(const std::string& name) {
  const std::string own = torchvision_name(name);
  return own.substr(0, own.find('.'));
}

// By which a network is recognized: all but vectors and the last layers.
std::vector<NamedTensor> kernels_of(const ImageModel& model) {
  std::vector<NamedTensor> kernels = model.state();
  const std::string head = head_prefix(model);
  std::erase_if(kernels, [&](const NamedTensor& item) {
    return item.tensor.dim() < 2 || is_last(item.name, head);
  });
  return kernels;
}

// Those of a file, without their bytes, that the model would have too: of convolutions; below the
// same parts; and tokens, if it has some.
StateDict kernels_like(const ImageModel& model, const StateDict& state) {
  constexpr std::size_t kConvolution = 4, kTokens = 3;
  std::unordered_set<std::string> parts;
  for (const NamedTensor& item : kernels_of(model))
    if (item.tensor.dim() < static_cast<std::int64_t>(kConvolution))
      parts.insert(first_part(item.name));
  StateDict kernels;
  const std::string head = head_prefix(model);
  for (const StoredTensor& tensor : state) {
    if (is_last(tensor.name, head)) continue;
    const std::size_t dimensions = tensor.shape.size();
    const bool is_inside = dimensions >= 2 && parts.contains(first_part(tensor.name));
    if (dimensions == kConvolution || is_inside || (dimensions == kTokens && !parts.empty()))
      kernels.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
  }
  return kernels;
}

// A network that is like a known one, by a part that only it has.
std::string relative_of(const StateDict& state) {
  using Relative = std::pair<std::string_view, std::string_view>;  // part, name
  static constexpr std::array<Relative, 7> kRelatives{{{"gamma_1", "a DINOv3, an EVA or a BEiT"},
                                                       {"register_tokens", "a ViT with registers"},
                                                       {"reg_token", "a ViT with registers"},
                                                       {"storage_tokens", "a DINOv3"},
                                                       {"rope_embed", "a DINOv3"},
                                                       {"dist_token", "a distilled ViT"},
                                                       {"grn", "a ConvNeXt V2"}}};
  for (const auto& [part, name] : kRelatives)
    for (const StoredTensor& tensor : state)
      if (("." + tensor.name + ".").find("." + std::string(part) + ".") != std::string::npos)
        return std::string(name);
  return "";
}

// Positions of another grid are resampled to the model's.
void fit_positions(const ImageModel& model, WeightSource& source) {
  constexpr std::string_view kPositions = ".pos_embed";  // also torchvision's pos_embedding
  for (const NamedTensor& own : model.state()) {
    if (own.tensor.dim() != 3 || own.name.find(kPositions) == own.name.npos) continue;
    for (StoredTensor& stored : source.state) {
      if (stored.name != own.name || stored.shape.size() != 3 ||
          stored.shape[2] != own.tensor.size(2) || stored.shape[0] != 1 ||
          !at::isFloatingType(torch_type(stored.dtype)))
        continue;
      const at::Tensor theirs = view_of(stored);
      const std::int64_t side = grid_side(theirs), wanted = grid_side(own.tensor);
      if (side == 0 || side == wanted) continue;
      const at::NoGradGuard no_grad;
      stored = to_state_dict({{own.name, resampled_positions(theirs, wanted, wanted)}}).front();
      source.kind +=
          formatted(", positions resampled from %dx%d patches to %dx%d", static_cast<int>(side),
                    static_cast<int>(side), static_cast<int>(wanted), static_cast<int>(wanted));
    }
  }
}

// The names of tensors inside the network's parts, or before its blocks, that it does
// not have: layer scale, say. Without these a relative's weights give other answers.
std::vector<std::string> strange_tensors(const ImageModel& model, const StateDict& state) {
  std::unordered_set<std::string> parts{"norm_pre"}, own;
  const std::string head = head_prefix(model);
  for (const NamedTensor& item : model.state()) {
    own.insert(item.name);
    if (!is_last(item.name, head)) parts.insert(first_part(item.name));
  }
  std::vector<std::string> strange;
  for (const StoredTensor& tensor : state)
    if (!own.contains(tensor.name) && !tensor.name.starts_with(head) &&
        parts.contains(first_part(tensor.name)) &&
        std::ranges::any_of(tensor.shape, [](auto side) { return side > 1; }) &&
        at::isFloatingType(torch_type(tensor.dtype)))
      strange.push_back(tensor.name);
  return strange;
}

// Throws Error kInvalidModelDirectory unless the source has exactly the kernels of the model, and
// nothing else that changes its answers. Names the network that they are of, where the file does.
void require_weights_of(const ImageModel& model, const std::string& name,
                        const WeightSource& source) {
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw Error(ErrorCode::kInvalidModelDirectory,
                "The weights in '" + source.where + "' are " + what + ". " + remedy);
  };
  const std::string remedy = "Give weights of " + name + ".";
  const std::string others = differences(kernels_of(model), kernels_like(model, source.state));
  if (others.empty()) {
    const std::string strange = listing("unexpected", strange_tensors(model, source.state));
    if (strange.empty()) return;
    refuse(
        "those of a relative of " + name + ", which lacks parts that change the answers" + strange,
        remedy);
  }
  if (const std::string relative = relative_of(source.state); !relative.empty())
    refuse("those of " + relative + ", which this program does not have" + others, remedy);
  const bool is_named = !source.network.empty() && source.network != name;
  refuse("not those of " + name + others, is_named ? "They are those of " + source.network +
                                                         ": use that network, or weights of " +
                                                         name + "."
                                                   : remedy);
}

// A linear layer; its tensors are undefined if there is none.
struct LinearLayer {
  at::Tensor weight, bias;

  bool is_whole() const {
    return weight.defined() && bias.defined() && weight.dim() == 2 && bias.dim() == 1 &&
           weight.size(0) == bias.size(0);
  }
  // Copies row rows[i] of `other` to row i, unless that is kFreshRow. Returns false, without
  // copying anything, if the layers have different numbers of inputs.
  bool copy_rows(const LinearLayer& other, const std::vector<std::int64_t>& rows) const {
    if (other.weight.size(1) != weight.size(1)) return false;
    for (std::size_t to = 0; to < rows.size(); ++to) {
      if (rows[to] == kFreshRow) continue;
      const auto row = static_cast<std::int64_t>(to);
      weight.select(0, row).copy_(other.weight.select(0, rows[to]));
      bias.select(0, row).copy_(other.bias.select(0, rows[to]));
    }
    return true;
  }
};

// Returns the layer of the tensors `prefix` + "weight" and "bias", ignoring those that are not
// floating-point.
LinearLayer layer_of(const std::vector<NamedTensor>& state, const std::string& prefix) {
  LinearLayer layer;
  for (const NamedTensor& item : state) {
    if (!item.tensor.is_floating_point()) continue;
    if (item.name == prefix + "weight") layer.weight = item.tensor;
    if (item.name == prefix + "bias") layer.bias = item.tensor;
  }
  return layer;
}

// Combines two consecutive linear layers into one. Returns no layer if they do not fit.
LinearLayer one_layer_of(const LinearLayer& first, const LinearLayer& second) {
  if (!second.is_whole() || second.weight.size(1) != first.weight.size(0)) return {};
  const auto wide = [](const at::Tensor& tensor) { return tensor.to(at::kDouble); };
  return {wide(second.weight).mm(wide(first.weight)).to(at::kFloat),
          (wide(second.weight).mv(wide(first.bias)) + wide(second.bias)).to(at::kFloat)};
}

class Loading {
 public:
  Loading(const ImageModel& model, WeightSource& source)
      : head_(head_prefix(model)), source_(source), state_(model.state()) {}

  std::string run(const std::vector<std::string>& classes) {
    const at::NoGradGuard no_grad;
    divide();
    std::vector<NamedTensor> targets;
    for (const NamedTensor& item : state_)
      if (!is_last(item.name, head_)) targets.push_back(item);
    // Files of older versions lack batch counts.
    std::unordered_set<std::string> names;  // copies, as the list grows
    for (const StoredTensor& tensor : backbone_) names.insert(tensor.name);
    for (const NamedTensor& item : state_)
      if (item.name.ends_with(".num_batches_tracked") && !names.contains(item.name))
        backbone_.push_back(
            {item.name, DType::kInt64, {}, std::string(sizeof(std::int64_t), '\0')});
    load_tensors(targets, backbone_, source_.where);
    num_taken_ = targets.size();
    return text(load_last_layers(classes));
  }

 private:
  // Divides the source's tensors: for the backbone, for the last layers, and those that the network
  // does not have.
  void divide() {
    std::unordered_map<std::string_view, const NamedTensor*> known;
    for (const NamedTensor& item : state_) known.emplace(item.name, &item);
    for (StoredTensor& tensor : source_.state)
      if (is_last(tensor.name, head_))
        last_.push_back(std::move(tensor));
      else if (known.contains(tensor.name))
        backbone_.push_back(std::move(tensor));
      else
        left_out_.push_back(torchvision_name(tensor.name));
    try {
      require_finite(backbone_);
      require_finite(last_);
    } catch (const FormatFault& fault) {
      throw Error(ErrorCode::kInvalidModelDirectory, "The weights in '" + source_.where +
                                                         "' cannot be used: " + fault.what() +
                                                         ". Give weights of a run that succeeded.");
    }
  }

  LinearLayer source_layer(const std::string& prefix) const {
    std::vector<NamedTensor> found;
    for (const StoredTensor& tensor : last_)
      if (tensor.name.starts_with(prefix)) found.push_back({tensor.name, view_of(tensor)});
    const LinearLayer layer = layer_of(found, prefix);
    return layer.is_whole() ? layer : LinearLayer{};
  }

  std::string leave_fresh(std::vector<LinearLayer> layers, const std::string& why) {
    fresh_ = std::move(layers);
    return "the last layer is fresh, since " + why;
  }

  std::string load_last_layers(const std::vector<std::string>& classes) {
    const LinearLayer own = layer_of(state_, head_),
                      own_out = layer_of(state_, std::string(kOutputLayer));
    const LinearLayer head = source_layer(head_), out = source_layer(std::string(kOutputLayer));
    if (!head.is_whole()) return leave_fresh({own, own_out}, "the weights have none");
    if (!own_out.is_whole() && !classes.empty()) {
      const bool has_out = std::ranges::any_of(
          last_, [](const auto& tensor) { return tensor.name.starts_with(kOutputLayer); });
      return load_rows(own, has_out ? one_layer_of(head, out) : head, classes);
    }
    if (head.weight.sizes() != own.weight.sizes())
      return leave_fresh({own, own_out}, "the weights have " + std::to_string(head.weight.size(0)) +
                                             " outputs instead of " +
                                             std::to_string(own.weight.size(0)));
    own.weight.copy_(head.weight);
    own.bias.copy_(head.bias);
    num_taken_ += 2;
    if (!own_out.is_whole())
      return out.is_whole() ? "the output layer is not loaded, since it is for other classes" : "";
    if (out.is_whole()) return load_rows(own_out, out, classes);
    fresh_ = {own_out};
    return "the output layer is fresh";
  }

  std::string load_rows(const LinearLayer& own, const LinearLayer& theirs,
                        const std::vector<std::string>& classes) {
    if (!theirs.is_whole()) return leave_fresh({own}, "the stored one is damaged");
    const ClassRows match = match_classes(classes, source_.classes, theirs.weight.size(0));
    if (match.any() && !own.copy_rows(theirs, match.rows))
      return leave_fresh({own}, "the stored one has other inputs");
    if (match.any())
      num_taken_ += 2;
    else
      fresh_ = {own};
    return match.text;
  }

  std::string text(const std::string& last) const {
    std::string all = formatted("%zu of %zu tensors from '%s' (%s)", num_taken_, state_.size(),
                                source_.where.c_str(), source_.kind.c_str());
    std::vector<std::string> fresh;  // the names of the tensors of fresh layers
    for (const NamedTensor& item : state_)
      for (const LinearLayer& layer : fresh_)
        if (layer.is_whole() &&
            (item.tensor.is_same(layer.weight) || item.tensor.is_same(layer.bias)))
          fresh.push_back(torchvision_name(item.name));
    if (!fresh.empty()) all += "; fresh: " + joined(fresh, ", ");
    if (!last.empty()) all += "; " + last;
    return all + listing("not loaded", left_out_);
  }

  std::string head_;  // "model.fc."
  WeightSource& source_;
  std::vector<NamedTensor> state_;
  StateDict backbone_, last_;
  std::vector<std::string> left_out_;
  std::vector<LinearLayer> fresh_;
  std::size_t num_taken_ = 0;
};

}  // namespace

std::string load_weights(ImageModel& model, const std::string& name,
                         const std::vector<std::string>& classes, WeightSource source) {
  fit_positions(model, source);
  require_weights_of(model, name, source);
  return Loading(model, source).run(classes);
}

}  // namespace kiln
