// The machine-readable files of an evaluation.
#pragma once

#include <string>
#include <vector>

#include "record/evaluation_record.h"
#include "record/metrics.h"

namespace kiln {

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
