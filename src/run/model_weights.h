// Weights between a network and the tensors that files hold, and what a run makes of those stored
// in an untrained model directory.
#pragma once

#include <string>
#include <vector>

#include "model/catalogue.h"
#include "model/image_model.h"
#include "store/tensor.h"

namespace kiln {

// Row-major copies in the order of model.state(), from whatever device and layout.
StateDict to_state_dict(const ImageModel& model);
// Of tensors on the host, which are given back one by one.
StateDict to_state_dict(std::vector<NamedTensor> tensors);

// Copies every tensor into the model, wherever it is. Strict: Error kInvalidModelDirectory, naming
// `where`, the first five missing, the first five unexpected and the first five mis-shaped names;
// then nothing has been copied. Floating-point types are converted, integers too, one kind into the
// other not.
void load_state(ImageModel& model, const StateDict& stored, const std::string& where);

// For files that older versions wrote: a zero for each num_batches_tracked that `stored` lacks.
void add_missing_batch_counts(StateDict& stored, const ImageModel& model);

// Loads the stored `model.` tensors; `out_linear_model`, which belongs to the data, keeps its fresh
// values. Strict as load_state().
void load_pretrained(ImageModel& model, const StateDict& stored, const std::string& where);

// The stored values are not used, but must be those of this network: every tensor but the head's by
// name and shape. Throws Error kInvalidModelDirectory naming `where` and the tensor.
void check_untrained(const ImageModel& model, const KnownNetwork& network, const StateDict& stored,
                     const std::string& where);

}  // namespace kiln
