// Reads model directories, and writes untrained and trained ones.
//
// Directories may be mount points, so they are filled file by file (base/output_folder.h) and
// become valid with `_meta.yaml`, the last to be put in place; an earlier one is removed first.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/calibration.h"
#include "base/output_folder.h"
#include "store/model_spec.h"
#include "store/preprocessing.h"
#include "store/seen_images.h"
#include "store/tensor.h"

namespace kiln {

struct ModelDirectory {
  ModelSpec spec;
  StateDict state;
  std::vector<std::string> labels;  // from index_to_label.csv; empty if untrained
  // Empty if untrained, and for directories of other programs or older versions.
  std::optional<Preprocessing> preprocessing;
  // A temperature of 1 for the same.
  Calibration calibration;
  // Empty for the same, and if training was told to leave it out.
  std::optional<SeenImages> seen_images;
};

// Errors as formats.md of the designer: 2000 (UserError) for a missing or empty folder, 159 for
// everything in it. `read_model_spec` reads `_meta.yaml` and `model_spec.yaml` alone. What a killed
// run had begun to put in place is finished first, or the directory refused.
ModelSpec read_model_spec(const std::filesystem::path& folder);
ModelDirectory read_model_directory(const std::filesystem::path& folder);

// Refuses `folder` before work starts: Error kFailedToWriteOutputs when it cannot be created or
// written (a probe file is written and removed), when another run holds it, or when it holds
// anything but an earlier model directory, leftovers of a killed run, names that begin with a dot,
// and lost+found. Creates missing parents. Removes leftovers. No other run gets the folder while
// the result lives.
OutputFolder prepare_model_output(const std::filesystem::path& folder);

struct OutputFile {
  std::string name;
  std::string bytes;
};

// Writes all files, `_meta.yaml` last whatever its place in the list; links among the earlier ones
// are replaced. An earlier directory is replaced as a whole.
void write_directory(const OutputFolder& folder, const std::vector<OutputFile>& files);
void write_directory(const std::filesystem::path& folder, const std::vector<OutputFile>& files);

// The files of a directory, `_meta.yaml` included.
std::vector<OutputFile> untrained_model_files(const ModelSpec& spec, const StateDict& state);

struct TrainedModel {
  ModelSpec spec;  // with num_classes; its normalization is taken from `preprocessing`
  StateDict state;
  std::vector<std::string> labels;
  Preprocessing preprocessing;
  Calibration calibration;
  std::string schema_json, samples_json, training_json;
  std::optional<SeenImages> seen_images = std::nullopt;  // empty: no file
};
// _meta.yaml, model_spec.yaml, model, model.safetensors, index_to_label.csv, preprocessing.json,
// calibration.json, seen_images.bin, _schema.json, _samples.json, training.json.
std::vector<OutputFile> trained_model_files(const TrainedModel& model);

// `0,airplane` with a header line `,label`; quoted only if necessary.
std::string format_label_map(const std::vector<std::string>& labels);
std::vector<std::string> parse_label_map(std::string_view csv);

// 2026-01-02T03:04:05.678901+0000, of any time that the clock may say.
std::string time_stamp(std::chrono::system_clock::time_point time);

}  // namespace kiln
