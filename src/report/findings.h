// What a run's numbers mean, in plain words: did it work, can it be trusted, what held it up.
#pragma once

#include <string>
#include <vector>

#include "report/run_record.h"

namespace kiln {

enum class Judged { kGood, kNote, kWarning };

struct Finding {
  Judged judged = Judged::kNote;
  std::string text;  // sentences of plain text
};

// Did it work: one short sentence.
Finding verdict(const RunRecord& run);

// Can it be trusted, and what to do next; warnings first.
std::vector<Finding> findings(const RunRecord& run);

// Where the time went, and what would help; empty before the end of the first epoch.
std::string time_finding(const RunRecord& run);

}  // namespace kiln
