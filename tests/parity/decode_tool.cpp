// For decode_parity.py: `decode_tool LIST` reads lines "INPUT<tab>SIZE<tab>FIT<tab>EXIF<tab>OUTPUT"
// and writes each input's pixels to OUTPUT as "P6", made SIZE x SIZE by FIT unless SIZE is 0; FIT
// and EXIF are those of a preprocessing.json. Prints "INPUT<tab>ORIENTATION<tab>" and the damage or
// fault.
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "base/files.h"
#include "data/image/image.h"
#include "data/transform/image_pipeline.h"

namespace {

void write_pixels(const std::string& path, const kiln::Image& image) {
  std::ofstream out(path, std::ios::binary);
  out << "P6 " << image.size.width << ' ' << image.size.height << " 255\n";
  out.write(reinterpret_cast<const char*>(image.pixels.data()),
            static_cast<std::streamsize>(image.pixels.size()));
}

std::string convert(const std::string& input, int size, kiln::Fit fit, kiln::Exif exif,
                    const std::string& output) {
  try {
    const std::string bytes = kiln::read_file(input);
    kiln::DecodedImage decoded = kiln::decode_image(bytes, exif);
    if (kiln::read_image_size(bytes, exif) != decoded.image.size)
      return "fault: the header's size differs";
    if (size > 0) {
      const kiln::TransformSpec plan = {.exif = exif,
                                        .output = {size, size},
                                        .fit = fit,
                                        .short_side = kiln::usual_short_side(size),
                                        .fill = {124, 116, 104}};
      decoded.image = {plan.output, std::vector<std::uint8_t>(3 * size * size)};
      decoded.damage = kiln::ImagePipeline().write(bytes, plan, {}, decoded.image.pixels.data());
    }
    write_pixels(output, decoded.image);
    return decoded.damage.empty() ? "" : "damage: " + decoded.damage;
  } catch (const kiln::ImageFault& fault) {
    return std::string("fault: ") + fault.what();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ifstream list(argv[1]);
  std::string line;
  while (std::getline(list, line)) {
    std::istringstream fields(line);
    std::string input, size, fit, exif, output;
    std::getline(fields, input, '\t');
    std::getline(fields, size, '\t');
    std::getline(fields, fit, '\t');
    std::getline(fields, exif, '\t');
    std::getline(fields, output, '\t');
    std::cout << input << '\t' << kiln::read_orientation(kiln::read_file(input)).value_or(1) << '\t'
              << convert(input, std::stoi(size),
                         kiln::value_named<kiln::Fit>(kiln::kFitNames, fit).value(),
                         kiln::value_named<kiln::Exif>(kiln::kExifNames, exif).value(), output)
              << '\n';
  }
  return 0;
}
