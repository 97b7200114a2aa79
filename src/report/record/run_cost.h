// What a run costs, where --price-per-hour says what an hour of its machines does.
#pragma once

#include <string>

#include "report/record/run_record.h"

namespace kiln {

// Of all machines of the run together, in the user's currency; 0: not known. The record may be
// anyone's.
double price_per_hour(const RunStart& start);

// "12.30"; "0.0042" where two digits would say too little.
std::string price_text(double price);

// "12.30 (4 h 01 min at 3.06 an hour)", for the time in which the run was running. Of a run that
// has epochs to come also what all of them will cost, by those so far. Empty: not known.
std::string cost_text(const RunRecord& run);

}  // namespace kiln
