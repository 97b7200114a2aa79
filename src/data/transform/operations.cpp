#include "data/transform/operations.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "data/transform/crop.h"
#include "data/transform/image_transform.h"
#include "data/transform/operations_json.h"

namespace kiln {
namespace {

// What an operation takes or returns: an image, a tensor, or several images.
enum class Form { kPixels, kTensor, kSeveral };

struct OperationRow {
  std::string_view name;
  Form takes, gives;
  MadeTransform (*make)(Arguments& arguments);
  std::vector<Parameter> parameters;  // as in torchvision
};

const std::vector<OperationRow>& operation_rows() {
  using enum Form;
  static const std::vector<OperationRow> kRows = {
      {"Resize",
       kPixels,
       kPixels,
       make_resize,
       {{"size"}, {"interpolation"}, {"max_size", true}, {"antialias", true}}},
      {"CenterCrop", kPixels, kPixels, make_center_crop, {{"size"}}},
      {"Pad", kPixels, kPixels, make_pad, {{"padding"}, {"fill"}, {"padding_mode"}}},
      {"ColorJitter",
       kPixels,
       kPixels,
       make_color_jitter,
       {{"brightness"}, {"contrast"}, {"saturation"}, {"hue"}}},
      {"Grayscale", kPixels, kPixels, make_grayscale, {{"num_output_channels"}}},
      {"RandomResizedCrop",
       kPixels,
       kPixels,
       make_random_resized_crop,
       {{"size"}, {"scale"}, {"ratio"}, {"interpolation"}, {"antialias", true}}},
      {"RandomCrop",
       kPixels,
       kPixels,
       make_random_crop,
       {{"size"}, {"padding", true}, {"pad_if_needed"}, {"fill"}, {"padding_mode"}}},
      {"RandomHorizontalFlip", kPixels, kPixels, make_random_horizontal_flip, {{"p"}}},
      {"RandomVerticalFlip", kPixels, kPixels, make_random_vertical_flip, {{"p"}}},
      {"RandomRotation",
       kPixels,
       kPixels,
       make_random_rotation,
       {{"degrees"}, {"interpolation"}, {"expand"}, {"center", true}, {"fill", true}}},
      {"RandomAffine",
       kPixels,
       kPixels,
       make_random_affine,
       {{"degrees"},
        {"translate", true},
        {"scale", true},
        {"shear", true},
        {"interpolation"},
        {"fill", true},
        {"center", true}}},
      {"RandomPerspective",
       kPixels,
       kPixels,
       make_random_perspective,
       {{"distortion_scale"}, {"p"}, {"interpolation"}, {"fill", true}}},
      {"RandomGrayscale", kPixels, kPixels, make_random_grayscale, {{"p"}}},
      {"ToTensor", kPixels, kTensor, make_to_tensor, {}},
      {"Normalize", kTensor, kTensor, make_normalize, {{"mean"}, {"std"}, {"inplace"}}},
      {"RandomErasing",
       kTensor,
       kTensor,
       make_random_erasing,
       {{"p"}, {"scale"}, {"ratio"}, {"value"}, {"inplace"}}},
      {"ToPILImage", kTensor, kPixels, make_to_pil_image, {{"mode", true}}},
      {"FiveCrop", kPixels, kSeveral, nullptr, {}},
      {"TenCrop", kPixels, kSeveral, nullptr, {}},
  };
  return kRows;
}

const OperationRow* find_row(std::string_view name) {
  for (const OperationRow& row : operation_rows())
    if (row.name == name) return &row;
  return nullptr;
}

// Creates the transforms of a chain, one operation after the other, and collects all faults.
class ChainReader {
 public:
  // Returns nullptr if the transform cannot be created. Adds the operation's faults to `faults`.
  std::shared_ptr<const ImageTransform> read(const WrittenOperation& written, std::size_t place) {
    const std::string who =
        "operation " + std::to_string(place + 1) + ", " + written.name.substr(0, 60) + ": ";
    const OperationRow* row = find_row(written.name);
    if (row == nullptr) {
      refuse_unknown(written.name, who);
      return nullptr;
    }
    check_form(*row, who);
    if (row->make == nullptr) return nullptr;
    MadeTransform made;
    const std::vector<std::string> found = make(*row, written.arguments, made);
    for (const std::string& fault : found) faults.push_back(who + fault);
    return found.empty() ? std::move(made) : nullptr;
  }

  void finish() {
    if (form_ == Form::kTensor)
      faults.emplace_back("it ends with a tensor, not an image: ToPILImage is missing");
  }

  std::vector<std::string> faults;

 private:
  void refuse_unknown(const std::string& name, const std::string& who) {
    std::vector<std::string> known;
    for (const OperationRow& row : operation_rows()) known.emplace_back(row.name);
    const std::string meant = did_you_mean(name, known);
    faults.push_back(who + "unknown operation" +
                     (meant.empty() ? "; known ones are " + joined(known, ", ") : "." + meant));
  }

  void check_form(const OperationRow& row, const std::string& who) {
    if (row.gives == Form::kSeveral)
      faults.push_back(who + "it produces several images, but one is needed: use CenterCrop");
    else if (row.takes == Form::kTensor && form_ == Form::kPixels)
      faults.push_back(who + "it takes a tensor: put ToTensor before it");
    else if (row.takes == Form::kPixels && form_ == Form::kTensor)
      faults.push_back(who + "it takes an image, not a tensor: put it before ToTensor");
    if (row.gives != Form::kSeveral) form_ = row.gives;
  }

  // A list of two numbers that cannot be two arguments is taken as a pair for the first one.
  std::vector<std::string> make(const OperationRow& row, const ArgumentValue& value,
                                MadeTransform& made) {
    Arguments arguments(value, row.parameters, num_channels_);
    made = row.make(arguments);
    num_channels_ = arguments.num_channels();
    if (!arguments.faults().empty() && value.kind == ArgumentValue::Kind::kList &&
        value.items.size() == 2 && !row.parameters.empty()) {
      ArgumentValue pair;
      pair.kind = ArgumentValue::Kind::kList;
      pair.items = {value};
      Arguments paired(pair, row.parameters, num_channels_);
      made = row.make(paired);
      if (paired.faults().empty()) return {};
    }
    return arguments.faults();
  }

  Form form_ = Form::kPixels;
  int num_channels_ = 3;
};

// Returns the random sequence of the operation at `place` in a chain. It is shared neither with
// other operations, so that changing one does not affect the rest, nor with augmentation.
RandomSequence draws_of(const DrawKey& key, std::size_t place) {
  constexpr std::uint64_t kOperations = 1000;
  return {key.seed, key.epoch, key.image, key.repeat, kOperations + place};
}

}  // namespace

std::uint8_t* WorkImage::begin(ImageSize next) {
  if (!is_plausible(next))
    throw ImageFault("its operations would enlarge it to " + text_of(next) + " pixels");
  spare.resize(static_cast<std::size_t>(next.height) * static_cast<std::size_t>(next.width) * 3);
  return spare.data();
}

void WorkImage::replace(ImageSize next) {
  pixels.swap(spare);
  size = next;
}

struct TransformMemory::Buffers {
  WorkImage image;
};

TransformMemory::TransformMemory() : buffers_(std::make_unique<Buffers>()) {}
TransformMemory::~TransformMemory() = default;
TransformMemory::TransformMemory(TransformMemory&&) noexcept = default;
TransformMemory& TransformMemory::operator=(TransformMemory&&) noexcept = default;

TransformChain TransformChain::parse(std::string_view json, const std::string& where,
                                     Problems& problems) {
  TransformChain chain;
  ChainReader reader;
  const std::vector<WrittenOperation> written = parse_operations_json(json, reader.faults);
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (auto transform = reader.read(written[i], i))
      chain.operations_.push_back({written[i].name, written[i].json, std::move(transform)});
  }
  reader.finish();
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
  std::string text = "[";
  for (const Operation& operation : operations_) {
    text += text.size() == 1 ? "\n" : ",\n";
    text += "  [\n    \"" + operation.name + "\",\n    " + operation.arguments + "\n  ]";
  }
  return text + (operations_.empty() ? "]" : "\n]");
}

bool TransformChain::is_random() const {
  return std::any_of(operations_.begin(), operations_.end(),
                     [](const Operation& operation) { return operation.transform->is_random(); });
}

std::optional<ImageSize> TransformChain::output_size(std::optional<ImageSize> whole) const {
  for (const Operation& operation : operations_) whole = operation.transform->size_after(whole);
  return whole;
}

void TransformChain::apply(Image& image, const DrawKey& key, TransformMemory& memory) const {
  WorkImage& work = memory.buffers_->image;
  work.size = image.size;
  work.pixels.swap(image.pixels);
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    RandomSequence random = draws_of(key, i);
    operations_[i].transform->apply(work, random);
  }
  image.size = work.size;
  image.pixels.swap(work.pixels);
}

}  // namespace kiln
