// Several runs beside each other, as values that the terminal's table and the page share.
#pragma once

#include <string>
#include <vector>

#include "report/html_page.h"

namespace kiln {

struct ComparisonRow {
  std::string run, model, epochs, top1, interval, top5, loss, speed, time, status;
  std::vector<std::string> cells() const {
    return {run, model, epochs, top1, interval, top5, loss, speed, time, status};
  }
};
inline const ComparisonRow kComparisonHeads = {
    "run", "model", "epochs", "best top-1", "95 %", "top-5", "loss", "images/s", "time", "status"};

// The best top-1 first; runs without an epoch last.
void sort_by_accuracy(std::vector<NamedRun>* runs);

std::vector<ComparisonRow> comparison_rows(const std::vector<NamedRun>& runs);

// An option in which the runs differ, with the value of each. Paths that every run has of its own
// (model and log) are left out.
struct OptionDifference {
  std::string name;
  std::vector<std::string> values;
};
std::vector<OptionDifference> option_differences(const std::vector<NamedRun>& runs);

// Whether the first two of sorted runs differ by more than chance, or cannot be compared; empty for
// fewer than two with an accuracy.
std::string comparison_finding(const std::vector<NamedRun>& runs);

// All of it, aligned for a terminal.
std::string comparison_text(const std::vector<NamedRun>& runs);

}  // namespace kiln
