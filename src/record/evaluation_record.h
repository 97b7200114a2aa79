// The results of `kiln evaluate`: metrics of one or more models on labeled images, and how the
// models differ. Plain values, for the files and pages.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "record/evaluation.h"
#include "record/metrics.h"
#include "record/run_record.h"
#include "record/training_record.h"

namespace kiln {

// Evaluated images that are byte for byte equal to an image used to train the model, or to choose
// it in validation.
struct SeenCounts {
  long long training = 0, validation = 0;
};

// A sentence for each kind of image that the model has seen, for the accuracy on them; empty: none.
std::vector<std::string> seen_texts(const SeenCounts& seen);

struct EvaluatedModel {
  std::string path;         // as given
  std::string network;      // "resnet18"
  DataRecord data;          // the model's classes and image size
  Evaluation figures;       // with calibrated confidences
  Calibration calibration;  // the model's temperature; answers on the evaluated images
  std::vector<JudgedImage> most_wrong;
  // For each of those, where in the image the model saw its answer; empty if not requested.
  std::vector<Thumbnail> heat_maps;
  long long num_unknown = 0;                // images of classes that the model lacks; skipped
  std::vector<std::string> unknown_labels;  // the labels of those
  std::optional<SeenCounts> seen;           // empty: the model does not store what it has seen
  std::vector<ImageFaultRecord> faults;     // of bad and damaged images
  long long num_bad = 0;                    // bad images, which are skipped
};

// An image on which two models differ and one of them is right.
struct DifferingImage {
  std::string file, true_label;
  std::string first_label, second_label;
  double first_confidence = 0, second_confidence = 0;
  Thumbnail thumbnail;
};

// Two of the models, by index, compared on the images that both have answered.
struct ModelPair {
  std::size_t first = 0, second = 0;
  PairedAnswers answers;
  McNemarTest test;
  std::vector<DifferingImage> images;  // in dataset order; the first ones have thumbnails
};

struct EvaluationRecord {
  double time = 0;  // Unix seconds
  std::string data_path;
  TextPairs options, versions;
  std::string device, precision;
  long long num_images = 0, num_unlabeled = 0;  // images in the dataset; those without a label
  std::vector<EvaluatedModel> models;
  std::vector<ModelPair> pairs;  // every pair of models
};

// A model's name on pages and the console: its network and folder.
std::string name_of(const EvaluatedModel& model);

// The accuracy of always predicting the largest class.
double majority_share(const Evaluation& figures);

// The machine-readable files of an evaluation.

inline constexpr const char* kEvaluationFileName = "evaluation.json";

// All results except pictures: {"data_path", "models": [{"path", "top1", "classes": […], …}],
// "pairs": […], …}. Undefined values, such as the recall of a class without images, are null.
std::string evaluation_json(const EvaluationRecord& record);

// One row per model, ending with the columns that the designer's Evaluate Model has for more than
// two classes: Overall_Accuracy, Micro_Precision, Macro_Precision, Micro_Recall, Macro_Recall.
std::string evaluation_csv(const EvaluationRecord& record);

// One row per class of each model.
std::string classes_csv(const EvaluationRecord& record);

// One row per image on which two models differ and one of them is right.
std::string differences_csv(const EvaluationRecord& record);

// A model's metrics for TensorBoard and MLflow, in the group "evaluation".
std::vector<Metric> evaluation_metrics(const EvaluatedModel& model);

}  // namespace kiln
