// Loads a network's initial weights from a source.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/image_model.h"
#include "model/weights/weight_source.h"
#include "store/state_dict_file.h"

namespace kiln {

// Conversion of weights between a network and the tensors in files, and initialization from an
// untrained model directory.

// Row-major copies in the order of model.state(), from any device and layout.
StateDict to_state_dict(const ImageModel& model);
// The same for tensors on the host, each of which is released once copied.
StateDict to_state_dict(std::vector<NamedTensor> tensors);

// A view of a row-major tensor on the host, which must outlive it.
TensorView view_of(const NamedTensor& item);
// A tensor that shares the stored bytes, which must outlive it.
at::Tensor view_of(const StoredTensor& stored);
at::Tensor view_of(const TensorView& stored);

// How `stored` differs from the targets of the same names: "; missing: …; unexpected: …; mismatched
// shape or type: …", with the first five names of each. Empty if it does not.
std::string differences(const std::vector<NamedTensor>& targets, const StateDict& stored);

// Copies every stored tensor into the target of the same name, on any device. Targets are the
// state() of a model or an optimizer. Strict: throws Error kInvalidModelDirectory naming `where`
// and the first five missing, unexpected and mis-shaped tensors, and then copies nothing. Converts
// between floating-point types and between integer types, but not between the two kinds.
void load_tensors(const std::vector<NamedTensor>& targets, const StateDict& stored,
                  const std::string& where);

// The network of a model directory with its weights, on the host. Throws as load_tensors().
std::unique_ptr<ImageModel> loaded_model(const ModelDirectory& directory, const std::string& where);

// Loads the stored `model.` tensors. `out_linear_model`, which depends on the data, keeps its
// initial values. As strict as load_tensors().
void load_pretrained(ImageModel& model, const StateDict& stored, const std::string& where);

// Checks that stored tensors belong to this network; their values are not used. Every tensor except
// the head's must match by name and shape. Throws Error kInvalidModelDirectory naming `where` and
// the tensor.
void check_untrained(const ImageModel& model, const StateDict& stored, const std::string& where);

// `model` must be on the host, freshly initialized, and the network of this name, with or without
// the output layer. All tensors except the last layers are loaded. If one is missing or does not
// fit, or the source is for another network, throws Error kInvalidModelDirectory and copies
// nothing. Source tensors that the network does not have are ignored, except convolutions and those
// inside its parts.
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
