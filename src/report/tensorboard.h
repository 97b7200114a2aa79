// The records that Kiln writes to TensorBoard event files: metrics as scalars, the confusion matrix
// and predictions as images, options as hyperparameters. Each is a complete TFRecord, to be
// appended to the file.
#pragma once

#include <string>
#include <vector>

#include "record/run_record.h"
#include "record/run_summary.h"
#include "record/training_record.h"

namespace kiln {

// `time`: Unix seconds.

std::string first_event(double time);    // first in every file
std::string restart_event(double time);  // makes TensorBoard discard what it has read before
std::string options_event(const TextPairs& options, double time);
std::string scalars_event(const std::vector<Metric>& metrics, double time, long long step);
std::string pictures_event(const ValidationDetails& details,
                           const std::vector<std::string>& classes, double time, long long step);
std::string end_event(bool succeeded, double time);

// A confusion matrix as an image: rows are true classes, columns are predictions, and darker cells
// hold a larger share of their row.
struct Picture {
  int side = 0;     // in pixels
  std::string png;  // the PNG file
};

Picture confusion_picture(const ConfusionMatrix& matrix);

// "events.out.tfevents.1767323045.myhost.kiln".
std::string event_file_name(double time);
// Whether this is the name of one of Kiln's event files.
bool is_event_file_name(const std::string& name);
// The time in the name, in whole Unix seconds; 0 if there is none.
double event_file_time(const std::string& name);

}  // namespace kiln
