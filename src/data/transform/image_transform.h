// One operation of an image transformation, with its arguments, which are requested by
// torchvision's names, and the functions that create each. The table of all operations is in
// operations.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "data/image/image.h"
#include "data/image/resample.h"

namespace kiln {

// A JSON value as an argument.
struct ArgumentValue {
  enum class Kind { kNull, kTruth, kNumber, kText, kList, kMapping };
  Kind kind = Kind::kNull;
  bool truth = false;
  double number = 0;
  std::string text;
  std::vector<std::string> names;    // names of a mapping's items
  std::vector<ArgumentValue> items;  // of a list or mapping
  std::string shown;                 // its JSON text, shortened
};

struct Parameter {
  std::string_view name;
  bool takes_null = false;
};

using Color = std::array<std::uint8_t, 3>;

// A closed interval.
struct Range {
  double low = 0, high = 0;
};

// How values between pixels are interpolated; numbered as in Pillow.
enum class Interpolation { kNearest, kLanczos, kBilinear, kBicubic, kBox, kHamming };

// The longest side of an image that may be given.
inline constexpr int kMaxSide = 100'000;

// Every getter records what is wrong with the value, and then returns the fallback; so an operation
// can request all its arguments before anyone checks the faults.
class Arguments {
 public:
  // Assigns `value` to `parameters`: a list in order, a mapping by name, a number to the first one;
  // anything else is a fault. Pixels have `num_channels` (1 or 3) channels at this point of the
  // chain.
  Arguments(const ArgumentValue& value, const std::vector<Parameter>& parameters, int num_channels);

  int num_channels() const { return num_channels_; }
  void set_num_channels(int number) { num_channels_ = number; }  // for later operations
  // Clauses: "its size is -3 instead of a whole number from 1 to 100000".
  const std::vector<std::string>& faults() const { return faults_; }
  void refuse(std::string_view name, const std::string& due);

  bool has(std::string_view name) const { return find(name) != nullptr; }  // and is not null
  void require(std::string_view name);
  bool is_one(std::string_view name) const;  // a number, or a list of one
  bool is_text(std::string_view name) const;

  int whole(std::string_view name, int low, int high, int fallback);
  double number(std::string_view name, Range allowed, double fallback);
  bool truth(std::string_view name, bool fallback);
  std::string word(std::string_view name, const std::vector<std::string>& choices);  // "": none
  // A list whose length is one of `lengths`; a single number may be given without a list. Empty:
  // not given.
  std::vector<double> numbers(std::string_view name, Range allowed,
                              std::initializer_list<std::size_t> lengths);
  // A list of two numbers, the lower one first.
  Range range(std::string_view name, Range allowed, Range fallback);
  // As range(), but a single number stands for the range from -number to number.
  std::vector<Range> angles(std::string_view name, std::initializer_list<std::size_t> lengths);
  // One number for both sides, or a height and a width.
  ImageSize size(std::string_view name);
  // One value for all channels or one for each, 0 to 255. Black if not given.
  Color color(std::string_view name);
  Interpolation interpolation(std::string_view name, Interpolation fallback);
  double probability(std::string_view name, double fallback);

 private:
  struct Given {
    std::string_view name;
    const ArgumentValue* value;
  };
  const ArgumentValue* find(std::string_view name) const;
  void assign_in_order(const std::vector<ArgumentValue>& items,
                       const std::vector<Parameter>& parameters);
  void assign_by_name(const ArgumentValue& mapping, const std::vector<Parameter>& parameters);
  void refuse_too_many(std::size_t given, std::size_t taken);
  void assign(const Parameter& parameter, const ArgumentValue& value);

  std::vector<Given> given_;
  std::vector<std::string> faults_;
  int num_channels_;
};

// An image on its way through a chain, with memory that is reused for the next one.
struct WorkImage {
  ImageSize size;
  std::vector<std::uint8_t> pixels;  // RGB, [H, W, 3]
  std::vector<float> samples;        // in tensor form, instead of `pixels`: RGB, [H, W, 3]
  std::vector<std::uint8_t> spare;   // the pixels being written
  std::vector<std::uint8_t> copy;    // scratch memory
  Resampler resampler;

  std::size_t num_pixels() const {
    return static_cast<std::size_t>(size.height) * static_cast<std::size_t>(size.width);
  }
  // begin() returns the memory for the pixels of an image of size `next`; replace() then makes them
  // the pixels of this one. Throws ImageFault for a size that no image may have.
  std::uint8_t* begin(ImageSize next);
  void replace(ImageSize next);
};

class ImageTransform {
 public:
  virtual ~ImageTransform() = default;
  // Throws ImageFault for an image that the operation does not accept.
  virtual void apply(WorkImage& image, RandomSequence& random) const = 0;
  // The size of the result for an image of size `whole`, or for any image; empty if it depends on
  // more than that. Throws ImageFault.
  virtual std::optional<ImageSize> size_after(std::optional<ImageSize> whole) const {
    return whole;
  }
  virtual bool is_random() const { return false; }
};

using MadeTransform = std::unique_ptr<ImageTransform>;

// Each of these requests all its arguments. The result must not be used if they have faults.

MadeTransform make_resize(Arguments& arguments);
MadeTransform make_random_resized_crop(Arguments& arguments);

MadeTransform make_center_crop(Arguments& arguments);
MadeTransform make_random_crop(Arguments& arguments);
MadeTransform make_pad(Arguments& arguments);
MadeTransform make_random_horizontal_flip(Arguments& arguments);
MadeTransform make_random_vertical_flip(Arguments& arguments);

MadeTransform make_color_jitter(Arguments& arguments);
MadeTransform make_grayscale(Arguments& arguments);
MadeTransform make_random_grayscale(Arguments& arguments);

MadeTransform make_random_rotation(Arguments& arguments);
MadeTransform make_random_affine(Arguments& arguments);
MadeTransform make_random_perspective(Arguments& arguments);

MadeTransform make_to_tensor(Arguments& arguments);
MadeTransform make_normalize(Arguments& arguments);
MadeTransform make_random_erasing(Arguments& arguments);
MadeTransform make_to_pil_image(Arguments& arguments);

inline double draw_between(Range range, RandomSequence& random) {
  return range.low + (range.high - range.low) * random.uniform();
}

}  // namespace kiln
