// audit_tool IN: reads the numbers of images and classes, then for each image its label and its
// probabilities, as text; prints the counts of given and true labels, a row a line, and in the last
// line the images whose labels are probably wrong, the most doubtful first.
#include <cstdint>
#include <fstream>
#include <iostream>
#include <vector>

#include "train/features/confident_learning.h"

int main(int argc, char** argv) {
  std::size_t num_images = 0, num_classes = 0;
  std::ifstream in(argc == 2 ? argv[1] : "");
  if (!(in >> num_images >> num_classes)) {
    std::cerr << "usage: audit_tool IN\n";
    return 2;
  }
  std::vector<std::int32_t> labels(num_images);
  std::vector<float> probabilities(num_images * num_classes);
  for (std::size_t i = 0; i < num_images; ++i) {
    in >> labels[i];
    for (std::size_t c = 0; c < num_classes; ++c) in >> probabilities[i * num_classes + c];
  }
  if (!in) {
    std::cerr << "the file ends early\n";
    return 2;
  }
  const kiln::JudgedLabels judged{probabilities, labels, num_classes};
  const kiln::LabelNoise noise = kiln::estimate_label_noise(judged);
  for (std::size_t given = 0; given < num_classes; ++given) {
    for (std::size_t truth = 0; truth < num_classes; ++truth)
      std::cout << noise.at(given, truth) << ' ';
    std::cout << '\n';
  }
  for (const std::uint32_t i : kiln::probably_wrong(judged, noise)) std::cout << i << ' ';
  std::cout << '\n';
  return 0;
}
