// One operation of an image transformation, with its arguments, which are requested by
// torchvision's names, and the functions that create each. The table of all operations is in
// operations.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "data/image/image.h"
#include "data/image/resample.h"
#include "data/transform/augment.h"
#include "data/transform/operations.h"

namespace kiln {

// The JSON text of a value, shortened.
std::string shown(const nlohmann::ordered_json& value);

struct Parameter {
  std::string_view name;
  bool takes_null = false;
};

using Color = std::array<std::uint8_t, 3>;

// The longest side of an image that may be given.
inline constexpr int kMaxSide = 100'000;

// Every getter records what is wrong with the value, and then returns the fallback; so an operation
// can request all its arguments before anyone checks the faults.
class Arguments {
  using Json = nlohmann::ordered_json;

 public:
  // Assigns `value`, which must outlive this, to `parameters`: a list in order, a mapping by name,
  // a number to the first one; anything else is a fault. Pixels have `num_channels` (1 or 3)
  // channels at this point of the chain.
  Arguments(const Json& value, const std::vector<Parameter>& parameters, int channels);

  int num_channels;  // an operation may change it, for later ones
  // Clauses: "its size is -3 instead of a whole number from 1 to 100000".
  const std::vector<std::string>& faults() const { return faults_; }
  void refuse(std::string_view name, const std::string& due);

  bool has(std::string_view name) const { return find(name) != nullptr; }  // and is not null
  void require(std::string_view name);
  bool is_one(std::string_view name) const;  // a number, or a list of one
  bool is_text(std::string_view name) const;

  int whole(std::string_view name, int low, int high, int fallback);
  double number(std::string_view name, NumberRange allowed, double fallback);
  bool truth(std::string_view name, bool fallback);
  std::string word(std::string_view name, const std::vector<std::string>& choices);  // "": none
  // A list whose length is one of `lengths`; a single number may be given without a list. Empty:
  // not given.
  std::vector<double> numbers(std::string_view name, NumberRange allowed,
                              std::initializer_list<std::size_t> lengths);
  // A list of two numbers, the lower one first.
  NumberRange range(std::string_view name, NumberRange allowed, NumberRange fallback);
  // As range(), but a single number stands for the range from -number to number.
  std::vector<NumberRange> angles(std::string_view name,
                                  std::initializer_list<std::size_t> lengths);
  // One number for both sides, or a height and a width.
  ImageSize size(std::string_view name);
  // One number for all channels, or one for each; `fallback` if not given.
  std::array<double, 3> for_channels(std::string_view name, NumberRange allowed, double fallback);
  // The same from 0 to 255. Black if not given.
  Color color(std::string_view name);
  Interpolation interpolation(std::string_view name, Interpolation fallback);

 private:
  const Json* find(std::string_view name) const;
  void assign(const Parameter& parameter, const Json& value);

  std::map<std::string_view, const Json*> given_;
  std::vector<std::string> faults_;
};

// One operation. `apply` throws ImageFault for an image that the operation does not accept.
struct ImageTransform {
  std::function<void(WorkImage& image, RandomSequence& random)> apply;
  bool is_random = false;
  // The size of the result for an image of size `whole`, or for any image; empty if it depends on
  // more than that. Throws ImageFault. Not set: the size stays.
  std::function<std::optional<ImageSize>(std::optional<ImageSize> whole)> size_after = {};
};

// Throws ImageFault for a size that no image may have.
void check_size(ImageSize size);

// Each of these requests all its arguments. The result must not be used if they have faults.

ImageTransform make_resize(Arguments& arguments);
ImageTransform make_random_resized_crop(Arguments& arguments);

ImageTransform make_center_crop(Arguments& arguments);
ImageTransform make_random_crop(Arguments& arguments);
ImageTransform make_pad(Arguments& arguments);
template <void (*kFlip)(std::uint8_t* pixels, ImageSize size)>
ImageTransform make_random_flip(Arguments& arguments);

ImageTransform make_color_jitter(Arguments& arguments);
ImageTransform make_grayscale(Arguments& arguments);
ImageTransform make_random_grayscale(Arguments& arguments);

ImageTransform make_random_rotation(Arguments& arguments);
ImageTransform make_random_affine(Arguments& arguments);
ImageTransform make_random_perspective(Arguments& arguments);

ImageTransform make_to_tensor(Arguments& arguments);
ImageTransform make_normalize(Arguments& arguments);
ImageTransform make_random_erasing(Arguments& arguments);
ImageTransform make_to_pil_image(Arguments& arguments);

}  // namespace kiln
