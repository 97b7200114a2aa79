// The arguments of one operation of an image transformation, requested by torchvision's names.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/image/image.h"

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

}  // namespace kiln
