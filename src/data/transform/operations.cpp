#include "data/transform/operations.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "data/transform/image_transform.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxOperations = 100;
constexpr std::size_t kMaxBytes = 1 << 16;

// Returns a list of pairs: an operation's name and its arguments. Faults are added to `faults` as
// clauses, such as "it is not a JSON list".
Json parse_operations_json(std::string_view json, std::vector<std::string>& faults) {
  Json operations = Json::array(), root;
  try {
    if (json.size() > kMaxBytes) throw JsonFault(1, "is larger than 64 KiB");
    root = parse_ordered_json(json);
  } catch (const JsonFault& fault) {
    faults.push_back(std::string("it ") + fault.what());
    return operations;
  }
  if (!root.is_array()) faults.push_back("it is not a JSON list of operations");
  if (root.is_array() && root.size() > kMaxOperations)
    faults.push_back("it has more than " + std::to_string(kMaxOperations) + " operations");
  if (!faults.empty()) return operations;
  for (const Json& element : root) {
    if (element.is_array() && element.size() == 2 && element[0].is_string())
      operations.push_back(element);
    else
      faults.push_back("its element " + shown(element) +
                       " is not an operation, which is a list of a name and arguments");
  }
  return operations;
}

// What an operation takes or returns: an image, a tensor, or several images.
enum class Form { kPixels, kTensor, kSeveral };

struct OperationRow {
  std::string_view name;
  ImageTransform (*make)(Arguments& arguments);
  std::vector<Parameter> parameters = {};  // as in torchvision
  Form takes = Form::kPixels, gives = Form::kPixels;
};

const std::vector<OperationRow>& operation_rows() {
  using enum Form;
  static const std::vector<OperationRow> kRows = {
      {"Resize",
       make_resize,
       {{"size"}, {"interpolation"}, {"max_size", true}, {"antialias", true}}},
      {"CenterCrop", make_center_crop, {{"size"}}},
      {"Pad", make_pad, {{"padding"}, {"fill"}, {"padding_mode"}}},
      {"ColorJitter", make_color_jitter, {{"brightness"}, {"contrast"}, {"saturation"}, {"hue"}}},
      {"Grayscale", make_grayscale, {{"num_output_channels"}}},
      {"RandomResizedCrop",
       make_random_resized_crop,
       {{"size"}, {"scale"}, {"ratio"}, {"interpolation"}, {"antialias", true}}},
      {"RandomCrop",
       make_random_crop,
       {{"size"}, {"padding", true}, {"pad_if_needed"}, {"fill"}, {"padding_mode"}}},
      {"RandomHorizontalFlip", make_random_flip<flip_horizontally>, {{"p"}}},
      {"RandomVerticalFlip", make_random_flip<flip_vertically>, {{"p"}}},
      {"RandomRotation",
       make_random_rotation,
       {{"degrees"}, {"interpolation"}, {"expand"}, {"center", true}, {"fill", true}}},
      {"RandomAffine",
       make_random_affine,
       {{"degrees"},
        {"translate", true},
        {"scale", true},
        {"shear", true},
        {"interpolation"},
        {"fill", true},
        {"center", true}}},
      {"RandomPerspective",
       make_random_perspective,
       {{"distortion_scale"}, {"p"}, {"interpolation"}, {"fill", true}}},
      {"RandomGrayscale", make_random_grayscale, {{"p"}}},
      {"ToTensor", make_to_tensor, {}, kPixels, kTensor},
      {"Normalize", make_normalize, {{"mean"}, {"std"}, {"inplace"}}, kTensor, kTensor},
      {"RandomErasing",
       make_random_erasing,
       {{"p"}, {"scale"}, {"ratio"}, {"value"}, {"inplace"}},
       kTensor,
       kTensor},
      {"ToPILImage", make_to_pil_image, {{"mode", true}}, kTensor, kPixels},
      {"FiveCrop", nullptr, {}, kPixels, kSeveral},
      {"TenCrop", nullptr, {}, kPixels, kSeveral},
  };
  return kRows;
}

// Creates the transforms of a chain, one operation after the other, and collects all faults.
class ChainReader {
 public:
  // Returns nullptr if the transform cannot be created. Adds the operation's faults to `faults`.
  std::shared_ptr<const ImageTransform> read(const std::string& name, const Json& arguments,
                                             std::size_t place) {
    const std::string who =
        "operation " + std::to_string(place + 1) + ", " + name.substr(0, 60) + ": ";
    const auto& rows = operation_rows();
    const auto row = std::ranges::find(rows, name, &OperationRow::name);
    if (row == rows.end()) {
      const auto known = list_from(rows, [](auto& other) { return std::string(other.name); });
      const std::string meant = did_you_mean(name, known);
      faults.push_back(who + "unknown operation" +
                       (meant.empty() ? "; known ones are " + joined(known, ", ") : "." + meant));
      return nullptr;
    }
    if (row->gives == Form::kSeveral) {
      faults.push_back(who + "it produces several images, but one is needed: use CenterCrop");
      return nullptr;
    }
    if (row->takes == Form::kTensor && form == Form::kPixels)
      faults.push_back(who + "it takes a tensor: put ToTensor before it");
    if (row->takes == Form::kPixels && form == Form::kTensor)
      faults.push_back(who + "it takes an image, not a tensor: put it before ToTensor");
    form = row->gives;
    auto made = std::make_shared<ImageTransform>();
    const std::vector<std::string> found = make(*row, arguments, *made);
    for (const std::string& fault : found) faults.push_back(who + fault);
    return found.empty() ? made : nullptr;
  }

  Form form = Form::kPixels;  // so far
  std::vector<std::string> faults;

 private:
  // A list of two numbers that cannot be two arguments is taken as a pair for the first one.
  std::vector<std::string> make(const OperationRow& row, const Json& value, ImageTransform& made) {
    Arguments arguments(value, row.parameters, num_channels_);
    made = row.make(arguments);
    num_channels_ = arguments.num_channels;
    if (!arguments.faults().empty() && value.is_array() && value.size() == 2 &&
        !row.parameters.empty()) {
      Json pair = Json::array();
      pair.push_back(value);
      Arguments paired(pair, row.parameters, num_channels_);
      made = row.make(paired);
      if (paired.faults().empty()) return {};
    }
    return arguments.faults();
  }

  int num_channels_ = 3;
};

}  // namespace

void check_size(ImageSize size) {
  if (!is_plausible(size))
    throw ImageFault("its operations would enlarge it to " + text_of(size) + " pixels");
}

std::uint8_t* WorkImage::begin(ImageSize next) {
  check_size(next);
  spare.resize(next.num_pixels() * 3);
  return spare.data();
}

void WorkImage::replace(ImageSize next) {
  pixels.swap(spare);
  size = next;
}

TransformChain TransformChain::parse(std::string_view json, const std::string& where,
                                     Problems& problems) {
  TransformChain chain;
  ChainReader reader;
  const Json written = parse_operations_json(json, reader.faults);
  for (std::size_t i = 0; i < written.size(); ++i) {
    const auto name = written[i][0].get<std::string>();
    const Json& arguments = written[i][1];
    if (auto transform = reader.read(name, arguments, i))
      chain.operations_.push_back({name, arguments.dump(2, ' ', true), std::move(transform)});
  }
  if (reader.form == Form::kTensor)
    reader.faults.emplace_back("it ends with a tensor, not an image: ToPILImage is missing");
  for (const std::string& fault : reader.faults)
    problems.add(Error(ErrorCode::kInvalidTransformationDirectory,
                       "'" + where + "' is not a valid list of image transformations: " + fault +
                           (fault.ends_with('?') ? "" : ".") +
                           " Fix it, or create the directory again."));
  return chain;
}

TransformChain TransformChain::for_inference() const {
  TransformChain chain;
  for (const Operation& operation : operations_)
    if (!operation.name.starts_with("Random")) chain.operations_.push_back(operation);
  return chain;
}

std::string TransformChain::to_json() const {
  Json all = Json::array();
  for (const Operation& operation : operations_)
    all.push_back(Json::array({operation.name, Json::parse(operation.arguments)}));
  return all.dump(2, ' ', true);
}

bool TransformChain::is_random() const {
  return std::ranges::any_of(operations_, [](const auto& it) { return it.transform->is_random; });
}

std::optional<ImageSize> TransformChain::output_size(std::optional<ImageSize> whole) const {
  for (const Operation& operation : operations_)
    if (operation.transform->size_after) whole = operation.transform->size_after(whole);
  return whole;
}

void TransformChain::apply(Image& image, const DrawKey& key, WorkImage& work) const {
  // Each operation has a sequence that it shares neither with others, so that changing one does not
  // affect the rest, nor with augmentation.
  constexpr std::uint64_t kOperations = 1000;
  work.size = image.size;
  work.pixels.swap(image.pixels);
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    RandomSequence random{key.seed, key.epoch, key.image, key.repeat, kOperations + i};
    operations_[i].transform->apply(work, random);
  }
  image.size = work.size;
  image.pixels.swap(work.pixels);
}

std::string TransformChain::summary() const {
  const auto shown_operation = [](const Operation& operation) {
    const std::string arguments = Json::parse(operation.arguments).dump();
    return operation.name + (arguments == "{}" ? "" : " " + arguments);
  };
  return operations_.empty() ? "no operation"
                             : joined(list_from(operations_, shown_operation), ", ");
}

std::pair<TransformChain, TransformChain> TransformChain::split_at_draws() const {
  std::pair<TransformChain, TransformChain> parts;
  for (const Operation& operation : operations_) {
    const bool is_fixed = parts.second.empty() && !operation.transform->is_random;
    (is_fixed ? parts.first : parts.second).operations_.push_back(operation);
  }
  return parts;
}

std::shared_ptr<const ImageChain> training_chain(const TransformChain& chain,
                                                 std::optional<ImageSize> whole_image) {
  auto [fixed, drawn] = chain.split_at_draws();
  const std::optional<ImageSize> between = fixed.output_size(whole_image);
  const std::optional<ImageSize> end = chain.output_size(whole_image);
  return std::make_shared<const ImageChain>(
      ImageChain{.whole = chain,
                 .fixed = std::move(fixed),
                 .drawn = std::move(drawn),
                 .can_be_kept = between.has_value() && between == end});
}

std::shared_ptr<const ImageChain> inference_chain(const TransformChain& chain) {
  TransformChain all = chain.for_inference();
  return std::make_shared<const ImageChain>(
      ImageChain{.whole = all, .fixed = all, .drawn = {}, .can_be_kept = true});
}

}  // namespace kiln
