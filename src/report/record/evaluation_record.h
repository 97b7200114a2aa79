// What `kiln evaluate` finds out: the figures of one or more models on labeled images, and how the
// models differ. Plain values, for the files and pages.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/training_record.h"
#include "report/record/evaluation.h"
#include "report/record/run_record.h"

namespace kiln {

// Evaluated images whose bytes are also those of an image that the model was trained or chosen on.
struct SeenCounts {
  long long training = 0, validation = 0;
};

struct EvaluatedModel {
  std::string path;         // as given
  std::string network;      // "resnet18"
  DataRecord data;          // its classes, and the size of its images
  Evaluation figures;       // by calibrated confidence
  Calibration calibration;  // its temperature; the answers are those to the evaluated images
  std::vector<JudgedImage> most_wrong;
  // Of each of those, where in it the model saw its answer; empty: not asked for.
  std::vector<Thumbnail> heat_maps;
  long long num_unknown = 0;                // images that are none of its classes, left out
  std::vector<std::string> unknown_labels;  // theirs
  std::optional<SeenCounts> seen;           // empty: the model does not say what it has seen
  std::vector<ImageFaultRecord> faults;     // of bad and damaged images
  long long num_bad = 0;                    // of them left out
};

// An image that two models take for different classes, one of them rightly.
struct DifferingImage {
  std::string file, true_label;
  std::string first_label, second_label;
  double first_confidence = 0, second_confidence = 0;
  Thumbnail thumbnail;
};

// Two of the models, by their place in the list, on the images that both have an answer to.
struct ModelPair {
  std::size_t first = 0, second = 0;
  PairedAnswers answers;
  McNemarTest test;
  std::vector<DifferingImage> images;  // in their order; the first ones have thumbnails
};

struct EvaluationRecord {
  double time = 0;  // Unix seconds
  std::string data_path;
  TextPairs options, versions;
  std::string device, precision;
  long long num_images = 0, num_unlabeled = 0;  // listed; without a label
  std::vector<EvaluatedModel> models;
  std::vector<ModelPair> pairs;  // every two
};

// A model's name on pages and in lines: its network and folder.
std::string name_of(const EvaluatedModel& model);

// The share of the images that always naming the largest class gets right.
double majority_share(const Evaluation& figures);

}  // namespace kiln
