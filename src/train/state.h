// What training changes: exactly what a checkpoint has to hold.
#pragma once

#include <cstdint>
#include <memory>

#include "model/image_model.h"
#include "train/optimizer.h"

namespace kiln {

struct TrainState {
  explicit TrainState(std::unique_ptr<ImageModel> prepared_model)
      : model(std::move(prepared_model)), optimizer(model->parameters()) {}

  std::unique_ptr<ImageModel> model;
  Sgd optimizer;
  int epoch = 0;  // finished epochs
};

}  // namespace kiln
