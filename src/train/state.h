// What training changes: exactly what a checkpoint has to hold.
#pragma once

#include <memory>

#include "model/image_model.h"
#include "parallel/gradient_buckets.h"
#include "train/optimizer.h"

namespace kiln {

struct TrainState {
  // `communicator` must outlive the state.
  TrainState(std::unique_ptr<ImageModel> prepared_model, const BucketPlan& plan,
             Communicator& communicator)
      : model(std::move(prepared_model)),
        gradients(model->parameters(), plan, communicator),
        optimizer(model->parameters(), gradients.gradients()) {}

  std::unique_ptr<ImageModel> model;
  GradientBuckets gradients;
  Sgd optimizer;
};

}  // namespace kiln
