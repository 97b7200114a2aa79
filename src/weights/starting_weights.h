// A network takes its first weights from a source.
#pragma once

#include <string>
#include <vector>

#include "model/catalogue.h"
#include "model/image_model.h"
#include "weights/weight_source.h"

namespace kiln {

// `model` is on the host and freshly initialized, of `network`, with or without the output layer.
// Everything but its last layers is taken: what is missing or misfits there, or a source of another
// network, is Error kInvalidModelDirectory, and nothing is copied. What the network has no tensor
// for is left out.
//
// The last layer. Without an output layer: rows by class (match_classes()); a source's 1000 outputs
// with a linear layer behind them are one layer. With one: the 1000 outputs are taken where they
// fit, and then the output layer's rows by class. `classes` empty, for a network that is not for
// any data yet: the 1000 outputs.
//
// Returns what was taken, as a clause for the log.
std::string load_weights(ImageModel& model, const KnownNetwork& network,
                         const std::vector<std::string>& classes, WeightSource source);

}  // namespace kiln
