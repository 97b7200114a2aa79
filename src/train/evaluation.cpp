#include "train/evaluation.h"

#include <torch/torch.h>

#include "train/loss.h"

namespace kiln {

Evaluator::Evaluator(ImageModel& model, BatchLoader& loader, DeviceFeed& feed)
    : model_(model), loader_(loader), feed_(feed), metrics_(feed.device()) {
  model_.train(false);
}

bool Evaluator::step() {
  const torch::InferenceMode inference;
  const HostBatch* host = loader_.next();
  if (host == nullptr) return false;
  ++steps_;
  if (host->count == 0) return true;
  const DeviceBatch batch = feed_.put(*host);
  const at::Tensor logits = model_.forward(batch.images);
  metrics_.add(logits, batch.labels, reported_loss(logits, batch.labels), steps_);
  for (std::size_t i = 0; i < host->labels.size(); ++i)
    verdicts_.push_back({host->items[i], static_cast<std::int32_t>(host->labels[i]), 0, 0});
  const auto [confidence, guess] = logits.softmax(1, torch::kFloat32).max(1);
  confidences_.push_back(confidence);
  guesses_.push_back(guess.to(torch::kInt32));
  return true;
}

std::vector<Verdict> Evaluator::take_verdicts() {
  if (verdicts_.empty()) return {};
  const at::Tensor confidences = torch::cat(confidences_).cpu();
  const at::Tensor guesses = torch::cat(guesses_).cpu();
  for (std::size_t i = 0; i < verdicts_.size(); ++i) {
    verdicts_[i].confidence = confidences.const_data_ptr<float>()[i];
    verdicts_[i].guess = guesses.const_data_ptr<std::int32_t>()[i];
  }
  return std::move(verdicts_);
}

}  // namespace kiln
