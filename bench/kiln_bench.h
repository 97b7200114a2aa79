// The parts of kiln_bench. Each measures, and prints one JSON object to standard output.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "record/vocabulary.h"
#include "run/process/process.h"

namespace kiln {

// The options of a part, which takes each by its name.
class Words {
 public:
  // Throws Error kUserError for what is not `--NAME VALUE`, or `--NAME` alone.
  explicit Words(const std::vector<std::string>& words);

  std::string take(const std::string& name, const std::string& otherwise);
  // Throws Error kUserError if it is not a number from `least` on.
  int take_number(const std::string& name, int otherwise, int least = 1);
  bool take_flag(const std::string& name);
  bool has(const std::string& name) const { return values_.contains(name); }
  // auto, cuda or cpu.
  DeviceChoice take_device();

  // Throws Error kUserError if an option was not taken.
  void finish() const;

 private:
  std::map<std::string, std::string> values_;
};

// Of repeated measurements.
struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread_of(std::vector<double> values);  // not empty

void bench_loader(Words& words, Process& process);
void bench_step(Words& words, Process& process);
void bench_depthwise(Words& words);
void bench_collective(Words& words, Process& process);
void bench_mpi(Words& words);
void bench_scale(Words& words, Process& process);

// A JPEG file decoded, resized to this short side and encoded again, with nothing but libjpeg and
// Kiln's resampling; the file itself if it is not larger.
std::string bare_jpeg(std::string_view bytes, int short_side, int quality);

}  // namespace kiln
