// The cost of a run, if --price-per-hour gives the price of its machines.
#pragma once

#include <string>

#include "record/run_record.h"

namespace kiln {

// The price of an hour of all machines of the run together, in the user's currency; 0 if unknown.
// The record need not be trusted.
double price_per_hour(const RunStart& start);

// "12.30"; with more decimals for small prices, "0.0042".
std::string price_text(double price);

// "12.30 (4 h 01 min at 3.06 an hour)", for the time that the run was running. If epochs remain,
// adds an estimate for the whole run from those so far. Empty if unknown.
std::string cost_text(const RunRecord& run);

}  // namespace kiln
