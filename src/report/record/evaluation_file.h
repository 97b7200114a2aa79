// The files of an evaluation that programs read.
#pragma once

#include <string>
#include <vector>

#include "report/record/evaluation_record.h"
#include "report/record/metrics.h"

namespace kiln {

inline constexpr const char* kEvaluationFileName = "evaluation.json";

// Everything but the pictures: {"data_path", "models": [{"path", "top1", "classes": […], …}],
// "pairs": […], …}. Figures that do not exist, such as the recall of a class without images, are
// null.
std::string evaluation_json(const EvaluationRecord& record);

// A row for each model, ending with the columns of the designer's Evaluate Model for more than two
// classes: Overall_Accuracy, Micro_Precision, Macro_Precision, Micro_Recall, Macro_Recall.
std::string evaluation_csv(const EvaluationRecord& record);

// A row for each class of each model.
std::string classes_csv(const EvaluationRecord& record);

// A row for each image on which two models differ, one of them being right.
std::string differences_csv(const EvaluationRecord& record);

// The figures of a model for TensorBoard and MLflow, in the group "evaluation".
std::vector<Metric> evaluation_metrics(const EvaluatedModel& model);

}  // namespace kiln
