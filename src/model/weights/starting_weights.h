// Loads a network's initial weights from a source.
#pragma once

#include <string>
#include <vector>

#include "model/image_model.h"
#include "model/weights/weight_source.h"

namespace kiln {

// `model` must be on the host, freshly initialized, and the network of this name, with or without
// the output layer. All tensors except the last layers are loaded. If one is missing or does not
// fit, or the source is for another network, throws Error kInvalidModelDirectory, naming the
// network whose convolutions are most similar, and copies nothing. Source tensors that the network
// does not have are ignored, except convolutions.
//
// The last layer. If the network has no output layer, rows are loaded by class (match_classes()); a
// source's 1000 outputs followed by a linear layer are first combined into one layer. If it has
// one, the 1000 outputs are loaded if they fit, and then the output layer's rows by class. If
// `classes` is empty, for a network not yet tied to data, only the 1000 outputs are loaded.
//
// Returns what was loaded, as a clause for the log.
std::string load_weights(ImageModel& model, const std::string& name,
                         const std::vector<std::string>& classes, WeightSource source);

}  // namespace kiln
