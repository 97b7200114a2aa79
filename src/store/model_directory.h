// Reads model directories, and writes untrained and trained ones.
//
// Directories may be mount points and so cannot be replaced by a rename. They are filled file by
// file (base/output_folder.h) and become valid with `_meta.yaml`, which is put in place last; an
// earlier `_meta.yaml` is removed first.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/output_folder.h"
#include "record/training_record.h"
#include "store/model_spec.h"
#include "store/state_dict_file.h"

namespace kiln {

// The images that a model was trained on, and those of validation by which it was chosen, as hashes
// of their bytes. Stored in the ModelDirectory as `seen_images.bin`, little-endian:
//
//   8 bytes    "KILNSEEN"
//   4 bytes    version: 1
//   8 bytes    number of training hashes
//   8 bytes    number of validation hashes
//   6 bytes    per training hash, ascending and unique; then the validation hashes likewise
//
// A hash is the upper 48 bits of content_hash() (base/content_hash.h), so an unseen image may be
// mistaken for a seen one: looking up 50,000 unseen images among 1.3 million training images gives
// 2.3e-4 false matches on average. Copies that differ in a single byte count as different images.
struct SeenImages {
  std::vector<std::uint64_t> train, valid;  // 48 bits each, ascending and unique

  // Looks up an image's content_hash() by binary search.
  bool was_trained_on(std::uint64_t content_hash) const;
  bool was_chosen_on(std::uint64_t content_hash) const;  // the validation images
  // Those of a model that another was trained from are seen by both.
  void add(const SeenImages& others);

  bool operator==(const SeenImages&) const = default;
};
inline constexpr std::uint64_t kMaxSeenImages = std::uint64_t{1} << 32;  // 700 million images

// Takes the content_hash() of each image, in any order; duplicates are allowed.
SeenImages make_seen_images(std::vector<std::uint64_t> train, std::vector<std::uint64_t> valid);

std::string pack_seen_images(const SeenImages& images);
// Throws Error kInvalidModelDirectory naming `where` (a path) and the fault. Uses memory at most in
// proportion to `bytes`.
SeenImages parse_seen_images(std::string_view bytes, const std::string& where);

struct ModelDirectory {
  ModelSpec spec;
  StateDict state;
  std::vector<std::string> labels;  // from index_to_label.csv; empty if untrained
  // Empty if untrained, or written by another program or an older version.
  std::optional<Preprocessing> preprocessing;
  // Has temperature 1 in the same cases.
  Calibration calibration;
  // Empty in the same cases, or if training was told not to store them.
  std::optional<SeenImages> seen_images;
  std::optional<std::string> features;  // the contents of features.safetensors, if there is one
};

// Error codes as in the designer's formats.md: 2000 (UserError) for a missing or empty folder, 159
// for any fault in its files. read_model_spec() reads only `_meta.yaml` and `model_spec.yaml`. If a
// killed run left the directory half replaced, the replacement is completed first, or the directory
// rejected. Both return what belongs to one model: see read_one_model().
ModelSpec read_model_spec(const std::filesystem::path& folder);
ModelDirectory read_model_directory(const std::filesystem::path& folder);

// Calls `read`, for what reads several files of a model directory, and again if the model was
// replaced meanwhile: what the last call has read belongs to one model. A fault that `read` throws
// counts only then. Throws Error kInvalidModelDirectory if the model is replaced time after time.
void read_one_model(const std::filesystem::path& folder, const std::function<void()>& read);

// The files of a model directory in a tar, compressed or not, as SageMaker packs what a job leaves
// in /opt/ml/model: of the shallowest folder with a _meta.yaml. Of several entries of one name the
// last one counts, as in tar itself. Throws Error kInvalidModelDirectory, also if there is no model
// directory, or several that may be meant.
TemporaryFolder unpacked_model(const std::filesystem::path& path);

// Checks and locks the output folder before work starts. Throws Error kFailedToWriteOutputs if it
// cannot be created or written (a probe file is written and removed), if another run has locked it,
// or if it holds anything but an earlier model directory, leftovers of a killed run, names that
// begin with a dot, and lost+found. Creates missing parents. Removes leftovers. The folder stays
// locked while the result exists.
OutputFolder prepare_model_output(const std::filesystem::path& folder);

// Writes all files, of which `_meta.yaml` is the last. Replaces an earlier directory as a whole;
// links in it are replaced, not followed.
void write_directory(const OutputFolder& folder, const std::vector<OutputFile>& files);

// Whether a folder is one that prepare_model_output() takes: it is missing, or holds nothing but an
// earlier model.
bool may_hold_model(const std::filesystem::path& folder);

// Makes `before` the same model directory, of hard links or copies; it is whole or absent at any
// moment. Throws as write_directory(), std::system_error.
void keep_directory(const std::filesystem::path& folder, const std::filesystem::path& before);

// The files of a model directory to train, `_meta.yaml` last. `labels`: the classes that the
// weights know, if `spec` has their number.
std::vector<OutputFile> untrained_model_files(const ModelSpec& spec, const StateDict& state,
                                              const std::vector<std::string>& labels = {});

struct TrainedModel {
  ModelSpec spec;  // with num_classes; its normalization is taken from `preprocessing`
  StateDict state;
  std::vector<std::string> labels;
  Preprocessing preprocessing;
  Calibration calibration;
  std::string schema_json, samples_json, training_json;
  std::optional<SeenImages> seen_images = std::nullopt;  // empty: no file
  std::string features = {}, training_features = {};     // empty: no file
};
// model_spec.yaml, model, index_to_label.csv, model.safetensors, preprocessing.json,
// calibration.json, seen_images.bin, features.safetensors, _schema.json, _samples.json,
// training.json, _meta.yaml.
std::vector<OutputFile> trained_model_files(const TrainedModel& model);

// `0,airplane` with a header line `,label`; quoted only if necessary.
std::string format_label_map(const std::vector<std::string>& labels);
std::vector<std::string> parse_label_map(std::string_view csv);

// "2026-01-02T03:04:05.678901+0000"; works for any value of the clock.
std::string time_stamp(std::chrono::system_clock::time_point time);

}  // namespace kiln
