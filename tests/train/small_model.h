// A linear classifier in float64, for tests that follow single steps.
#pragma once

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>

#include <string>
#include <vector>

#include "model/image_model.h"

namespace kiln {

// [N, 3, 4, 4] -> [N, 2]; the same weights every time.
class SmallModel : public ImageModel {
 public:
  SmallModel() {
    at::manual_seed(7);
    weight_ = (at::randn({2, 48}, at::kDouble) * 0.1).requires_grad_();
  }
  at::Tensor pooled_features(const at::Tensor& images) override {
    return images.to(at::kDouble).flatten(1).mm(weight_.t());
  }
  at::Tensor class_maps(const at::Tensor&, const std::vector<int>&) override { return {}; }
  void train(bool) override {}
  at::Tensor logits_of(const at::Tensor& features) override { return features; }
  void freeze(Freeze) override {}
  std::vector<int> stages() const override { return {1}; }
  std::vector<NamedTensor> head() const override { return named_parameters(); }
  std::vector<at::Tensor> parameters() const override { return {weight_}; }
  std::vector<NamedTensor> named_parameters() const override { return {{"weight", weight_}}; }
  std::vector<NamedTensor> state() const override { return named_parameters(); }
  void prepare(const at::Device&) override {}
  void to_float64() override {}
  void synchronize_batch_norm(const BatchRanks&) override {}
  void fold_batch_norm() override {}
  Kept kept() const override { return {}; }

 private:
  at::Tensor weight_;
};

}  // namespace kiln
