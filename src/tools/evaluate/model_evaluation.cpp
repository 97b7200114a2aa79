#include "tools/evaluate/model_evaluation.h"

#include <ATen/TensorOperators.h>
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <ATen/ops/topk.h>

#include "base/error.h"
#include "base/text.h"
#include "data/dataset/image_source.h"
#include "predict/prediction_faults.h"
#include "predict/thumbnail.h"

namespace kiln {
namespace {

constexpr std::size_t kMostWrong = 24, kNamed = 10;

// Returns the model's class id for each class of the set, or -1 for a class that the model does not
// know.
std::vector<int> class_ids(const Dataset& set, const std::vector<std::string>& labels) {
  std::vector<int> ids;
  for (const std::string& name : set.classes) {
    const auto found = std::find(labels.begin(), labels.end(), name);
    ids.push_back(found == labels.end() ? -1 : static_cast<int>(found - labels.begin()));
  }
  return ids;
}

class ModelEvaluator {
 public:
  ModelEvaluator(Predictor& predictor, const Dataset& set, const EvaluateConfig& config, Log& log,
                 const std::function<void(const Score&)>& row)
      : predictor_(predictor),
        set_(set),
        row_(row),
        true_labels_(set, predictor.labels()),
        ids_(class_ids(set, predictor.labels())),
        figures_(static_cast<int>(predictor.labels().size()), config.top_k, kMostWrong),
        faults_(config.prediction.max_bad_images, log),
        answers_(set.samples.size()) {}

  // Throws Error kInvalidDataset if no class of the set is known to the model.
  void require_labels(const std::string& data_path) const {
    if (std::any_of(ids_.begin(), ids_.end(), [](int id) { return id >= 0; })) return;
    throw Error(
        ErrorCode::kInvalidDataset,
        "Images '" + data_path + "': " +
            (set_.classes.empty() ? "they have no labels"
                                  : "their classes are " + quoted_names(set_.classes, kNamed)) +
            ", but the model knows " + quoted_names(predictor_.labels(), kNamed) +
            ". Evaluation needs labels: put the images into folders named after the "
            "model's classes, or use `kiln score`.");
  }

  void add(const PredictedBatch& batch) {
    at::Tensor probabilities, ids;
    if (batch.images.count > 0) {
      probabilities = (batch.logits / predictor_.calibration().temperature).softmax(1);
      ids = std::get<1>(at::topk(probabilities, figures_.k(), 1)).to(at::kInt).contiguous();
    }
    for (BatchImage& image : batch.each()) {
      Score row;
      row.path = set_.samples.file_name(image.index);
      row.true_label = true_labels_.of(image.index);
      row.fault = std::move(image.fault);
      bool is_bad = true;
      if (image.row) {
        const auto at = static_cast<std::int64_t>(*image.row);
        is_bad = !answer(image.index, row, probabilities[at], ids[at]);
      }
      if (!row.fault.empty()) note_fault(row, is_bad);
      row_(row);
    }
    faults_.check(static_cast<long long>(set_.samples.size()));
  }

  ModelAnswers finish(const std::string& path, const TransformSpec& pixels) {
    faults_.require_any_good(static_cast<long long>(set_.samples.size()));
    if (figures_.totals().count == 0)
      throw Error(ErrorCode::kInvalidDataset,
                  "None of the images with a known label could be classified.");
    EvaluatedModel model{.path = path,
                         .network = predictor_.spec().model_name,
                         .data = {},
                         .figures = figures_,
                         .calibration = {predictor_.calibration().temperature, figures_.answers()},
                         .most_wrong = {},
                         .heat_maps = {},
                         .unknown_labels = {},
                         .seen = {},
                         .faults = std::move(records_),
                         .num_bad = faults_.num_bad()};
    std::erase_if(model.calibration.answers, [](const AnswerBin& bin) { return bin.images == 0; });
    model.data.classes = predictor_.labels();
    model.data.eval_height = pixels.output.height;
    model.data.eval_width = pixels.output.width;
    UnknownLabels unknown = true_labels_.unknown();
    model.num_unknown = unknown.num_images;
    model.unknown_labels = std::move(unknown.names);
    for (const WrongImage& wrong : figures_.most_confidently_wrong()) {
      const auto i = static_cast<std::size_t>(wrong.image);
      model.most_wrong.push_back({std::string(set_.samples.file_name(i)), wrong.truth, wrong.guess,
                                  wrong.confidence, thumbnail_of(set_, i, pixels)});
    }
    return {std::move(model), std::move(answers_), pixels};
  }

 private:
  // Returns false and sets the row's fault if there is no answer. `probabilities`: [num_classes];
  // `ids`: [k].
  bool answer(std::uint32_t i, Score& row, const at::Tensor& probabilities, const at::Tensor& ids) {
    const std::span<const float> shares(probabilities.const_data_ptr<float>(),
                                        predictor_.labels().size());
    const std::span<const std::int32_t> top(ids.const_data_ptr<std::int32_t>(),
                                            static_cast<std::size_t>(figures_.k()));
    const float confidence = shares[static_cast<std::size_t>(top[0])];
    if (!std::isfinite(confidence)) {
      row.fault = kNoNumberFault;
      return false;
    }
    row.best.push_back({top[0], confidence});
    const int label = set_.samples.label(i);
    const int truth = label < 0 ? -1 : ids_[static_cast<std::size_t>(label)];
    if (truth < 0) return true;
    figures_.add({i, truth, top, shares});
    answers_[i] = {top[0], confidence, top[0] == truth};
    return true;
  }

  void note_fault(const Score& row, bool is_bad) {
    faults_.note(row.path, row.fault, is_bad);
    records_.push_back({"evaluation", row.path, row.fault, !is_bad});
  }

  Predictor& predictor_;
  const Dataset& set_;
  const std::function<void(const Score&)>& row_;
  const TrueLabels true_labels_;
  const std::vector<int> ids_;
  Evaluation figures_;
  PredictionFaults faults_;
  std::vector<ImageFaultRecord> records_;
  std::vector<ImageAnswer> answers_;
};

}  // namespace

ModelAnswers evaluate_model(const std::string& path, Predictor& predictor, Dataset& set,
                            const EvaluateConfig& config, const Device& device, Log& log,
                            const std::function<void(const Score&)>& row) {
  ModelEvaluator evaluator(predictor, set, config, log, row);
  evaluator.require_labels(config.data_path);
  Predictions predictions(predictor,
                          {.device = device,
                           .batch_size = config.prediction.batch_size,
                           .loader_threads = config.prediction.loader_threads,
                           .warn = [&log](const std::string& text) { log.warning(text); }});
  predictions.for_each(set, [&](const PredictedBatch& batch) { evaluator.add(batch); });
  return evaluator.finish(path, predictions.pixels());
}

}  // namespace kiln
