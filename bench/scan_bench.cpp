// kiln_scan_bench DIR: lists a labeled folder as `kiln train` does, and prints seconds, images and
// the memory that the list takes.
#include <chrono>
#include <cstdio>
#include <exception>

#include "data/dataset/dataset.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const auto begin = std::chrono::steady_clock::now();
    const kiln::Dataset set = kiln::read_labeled_dataset(argv[1], "Folder");
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const std::size_t images = set.samples.size();
    std::printf("{\"seconds\": %.4f, \"images\": %zu, \"list_bytes_per_image\": %.1f}\n",
                seconds.count(), images,
                static_cast<double>(set.samples.memory_bytes()) / static_cast<double>(images));
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "%s\n", fault.what());
    return 1;
  }
  return 0;
}
