// What the ranks say to each other between steps: one blocking sum over all of them, whatever there
// is to say.
#pragma once

#include <vector>

#include "base/training_record.h"
#include "parallel/ranks/world.h"

namespace kiln {

// Before vote(): what this rank has to say. After it: what all ranks said. All ranks give equally
// many numbers.
struct Vote {
  int stop_signal = 0;               // SIGTERM, SIGINT or SIGUSR1 has come; 0: none
  bool has_bad_images = false;       // that have not been told yet
  bool has_diverged = false;         // a loss was not finite
  std::vector<double> numbers = {};  // summed over the ranks
};

// What every rank says: whether a stop signal has come, and bad images.
Vote ballot(bool has_bad_images, std::vector<double> numbers = {});

// A collective: one sum.
Vote vote(World& world, const Vote& mine);

// The same as values to be summed, and back; the stop signal is the first of the list above that
// any rank met.
std::vector<double> to_values(const Vote& vote);
Vote to_vote(const std::vector<double>& sums);

// The numbers of a record that are sums over the ranks, and back.
std::vector<double> summed_numbers(const Totals& totals);
std::vector<double> summed_numbers(const StepRecord& record);
std::vector<double> summed_numbers(const EpochRecord& record);  // of training
void set_summed_numbers(const std::vector<double>& sums, Totals& totals);
void set_summed_numbers(const std::vector<double>& sums, StepRecord& record);
void set_summed_numbers(const std::vector<double>& sums, EpochRecord& record);

}  // namespace kiln
