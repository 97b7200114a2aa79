#include "train/evaluation.h"

#include <torch/torch.h>

#include "model/loss.h"
#include "train/metrics.h"

namespace kiln {
namespace {

// What was guessed stays on the device until all of it is there.
class Verdicts {
 public:
  void add(const HostBatch& batch, const at::Tensor& logits) {
    for (std::size_t i = 0; i < batch.labels.size(); ++i)
      verdicts_.push_back({batch.items[i], static_cast<std::int32_t>(batch.labels[i]), 0, 0});
    const auto [confidence, guess] = logits.softmax(1, torch::kFloat32).max(1);
    confidences_.push_back(confidence);
    guesses_.push_back(guess.to(torch::kInt32));
  }

  std::vector<Verdict> take() {
    if (verdicts_.empty()) return {};
    const at::Tensor confidences = torch::cat(confidences_).cpu();
    const at::Tensor guesses = torch::cat(guesses_).cpu();
    for (std::size_t i = 0; i < verdicts_.size(); ++i) {
      verdicts_[i].confidence = confidences.const_data_ptr<float>()[i];
      verdicts_[i].guess = guesses.const_data_ptr<std::int32_t>()[i];
    }
    return std::move(verdicts_);
  }

 private:
  std::vector<Verdict> verdicts_;
  std::vector<at::Tensor> confidences_, guesses_;  // [N] a batch
};

}  // namespace

bool evaluate(ImageModel& model, BatchLoader& loader, DeviceFeed& feed, Evaluation* evaluation,
              const std::function<bool()>& should_stop) {
  const torch::InferenceMode inference;
  model.train(false);
  MetricSums metrics(feed.device());
  Verdicts verdicts;
  int step = 0;
  while (const HostBatch* host = loader.next()) {
    if (should_stop()) return false;
    ++step;
    if (host->count == 0) continue;
    const DeviceBatch batch = feed.put(*host);
    const at::Tensor logits = model.forward(batch.images);
    metrics.add(logits, batch.labels, cross_entropy(logits, batch.labels, 1), step);
    verdicts.add(*host, logits);
  }
  *evaluation = {metrics.totals(), verdicts.take()};
  return true;
}

}  // namespace kiln
