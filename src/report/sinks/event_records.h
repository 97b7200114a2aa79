// The records of TensorBoard's event files that Kiln writes: metrics as scalars, the confusion
// matrix and predictions as images, options as hyperparameters. Each is a whole TFRecord, to be
// appended.
#pragma once

#include <string>
#include <vector>

#include "base/training_record.h"
#include "report/record/metrics.h"
#include "report/record/run_record.h"

namespace kiln {

// `time`: Unix seconds.

std::string first_event(double time);    // of every file
std::string restart_event(double time);  // TensorBoard forgets what it has read before
std::string options_event(const TextPairs& options, double time);
std::string scalars_event(const std::vector<Metric>& metrics, double time, long long step);
std::string pictures_event(const ValidationDetails& details,
                           const std::vector<std::string>& classes, double time, long long step);
std::string end_event(bool succeeded, double time);

// A confusion matrix as an image: rows are true classes, columns are predictions, and darker cells
// hold a larger share of their row.
struct Picture {
  int side = 0;     // pixels
  std::string png;  // the file
};

Picture confusion_picture(const ConfusionMatrix& matrix);

// "events.out.tfevents.1767323045.myhost.kiln".
std::string event_file_name(double time);
// Whether a file of that name is one of Kiln's.
bool is_event_file_name(const std::string& name);
// The time in the name, in whole seconds; 0: none.
double event_file_time(const std::string& name);

}  // namespace kiln
