// What is known of the learning-rate schedules without computing a rate: their names, and what the
// command line checks and warns of. Also used there, so there is no LibTorch here.
#pragma once

#include <array>
#include <string_view>

namespace kiln {

// When the rate depends on how many epochs the run has. --time-limit learns that number only after
// the first epoch.
enum class DependsOnLength { kNever, kAfterWarmup, kAlways };

// A row of the table.
struct KnownSchedule {
  std::string_view name;
  std::string_view description;  // for --help, without a dot at its end
  DependsOnLength depends_on_length;
  bool is_per_step;        // false: one rate for a whole epoch
  bool falls_to_floor;     // to kRateFloor at the end
  bool has_linear_warmup;  // from kWarmupStart
};

// The first one is the default.
inline constexpr auto kKnownSchedules = std::to_array<KnownSchedule>({
    {"polynomial", "with the square of the remaining epochs, once per epoch",
     DependsOnLength::kAfterWarmup, false, true, true},
    {"cosine", "half a cosine", DependsOnLength::kAfterWarmup, true, true, true},
    {"onecycle", "also rises by one, over the epochs of --num-warmup-steps or three tenths of all",
     DependsOnLength::kAlways, true, false, false},
    {"constant", "not at all", DependsOnLength::kNever, true, false, true},
});

// Null for an unknown name.
constexpr const KnownSchedule* find_known_schedule(std::string_view name) {
  for (const KnownSchedule& schedule : kKnownSchedules)
    if (schedule.name == name) return &schedule;
  return nullptr;
}

}  // namespace kiln
