// The metadata files of model directories, read and written, and the names of all their files.
// Format: the designer's UntrainedModelDirectory and ModelDirectory, with files of our own.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/training_record.h"
#include "record/vocabulary.h"

namespace kiln {

// The names of files in model directories.

inline constexpr std::string_view kMetaFile = "_meta.yaml";
inline constexpr std::string_view kSpecFile = "model_spec.yaml";
inline constexpr std::string_view kModelFile = "model";                    // the weights
inline constexpr std::string_view kSafetensorsFile = "model.safetensors";  // the same weights
inline constexpr std::string_view kLabelMapFile = "index_to_label.csv";
inline constexpr std::string_view kPreprocessingFile = "preprocessing.json";
inline constexpr std::string_view kCalibrationFile = "calibration.json";
inline constexpr std::string_view kSeenImagesFile = "seen_images.bin";
inline constexpr std::string_view kFeaturesFile = "features.safetensors";
inline constexpr std::string_view kTrainingFeaturesFile = "training_features.safetensors";

// Bytes that `_meta.yaml` and the specifications may have.
inline constexpr std::uint64_t kMaxMetaBytes = 1 << 16, kMaxSpecBytes = 1 << 16;

// Written by this program, besides `_meta.yaml`.
inline constexpr std::array<std::string_view, 12> kOwnFiles{
    kSpecFile,        kModelFile,      kSafetensorsFile, kLabelMapFile,         kPreprocessingFile,
    kCalibrationFile, kSeenImagesFile, kFeaturesFile,    kTrainingFeaturesFile, "_schema.json",
    "_samples.json",  "training.json"};
// Also written by the designer's program.
inline constexpr std::array<std::string_view, 2> kDesignerFiles{"conda_env.yaml", "score.py"};

// `_meta.yaml`: the type of a directory and the location of its parts.
struct DirectoryMeta {
  std::string type;        // "ModelDirectory", …
  std::string model_spec;  // file name of the model specification
};

// Throws Error kInvalidModelDirectory naming the file and its fault.
DirectoryMeta read_directory_meta(const std::filesystem::path& path);

// `model_spec.yaml`.
struct ModelSpec {
  std::string model_name;   // "resnet18", "densenet121", …
  bool pretrained = false;  // has a 1000-way head, followed by a linear layer in trained models
  // Trained models: several labels an image. Its flavor is then one that other readers refuse.
  TaskKind task = TaskKind::kSingleLabel;
  bool memory_efficient = false;        // DenseNet only
  bool zero_init_residual = false;      // ResNet only
  std::optional<int> num_classes = {};  // trained models
  int num_thresholds() const { return task == TaskKind::kMultiLabel ? num_classes.value_or(0) : 0; }
  std::optional<Normalization> normalization = {};  // trained models
  // As read: a file name in the directory, without any path. Always written as kModelFile.
  std::string model_file{kModelFile};
};

// Throws Error kInvalidModelDirectory naming `where` (a path), the key and what was found.
ModelSpec parse_model_spec(std::string_view yaml, const std::string& where);
std::string format_model_spec(const ModelSpec& spec, std::string_view time_created);

// How an image becomes the input of a trained model: what validation did, so that code using the
// model can do the same. Stored in the ModelDirectory as `preprocessing.json`:
//
//   {
//     "version": 1,
//     "exif": "apply",            pictures are turned upright first; "ignore", as if it is missing:
//                                 they are not
//     "resize_short_side": 256,   null: images are resized to the least size that covers the
//                                 input's
//     "keep_exact_size": true,    an image that already has the input's size is not resized
//     "input_size": [224, 224],   height, width: center crop
//     "mean": [0.5, 0.5, 0.5],    of R, G, B, each from 0 to 1
//     "std": [0.5, 0.5, 0.5]
//   }
//
// All other keys are required and no more are allowed. Resizing is bilinear and antialiased, on
// 8-bit pixels, as in Pillow. The offset of the crop is (size - input size) / 2, with halves
// rounded to even.
//
// If the model uses the operations of a TransformationDirectory, the version is 2,
// "resize_short_side" is not used, and one more key follows: "transforms", the inference form of
// the operations in the format of `_transforms.json`. An image that then has another size than the
// input is resized to cover it, and cropped.
//
// If images are not cropped, "resize_short_side" is not used, and one more key follows: "fit".
// "stretch": both sides become the input's. "pad": one side becomes the input's, the other one is
// rounded down but at least 1, and the offset in the input is rounded as that of the crop; around
// the image is the color of a last key, "fill": [128, 128, 128], in R, G, B.

// torchvision's normalization for its published weights.
inline constexpr Normalization kImagenetNormalization{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

struct Preprocessing {
  Exif exif = Exif::kIgnore;
  int height = 0;  // of the network's input, as is the width
  int width = 0;
  int resize_short_side = 0;  // 0: none; else at least the longer side of the input
  bool keep_exact_size = true;
  Normalization normalization;
  std::string transforms = {};  // JSON; empty: none
  Fit fit = Fit::kCrop;
  std::array<std::uint8_t, 3> fill = {};  // for kPad
  bool operator==(const Preprocessing&) const = default;
};

// Throws Error kInvalidModelDirectory naming `where` (a path), the key and what was found.
Preprocessing parse_preprocessing(std::string_view json, const std::string& where);
// Round-trips exactly: parsing the text gives the same values, mean and std to the last bit.
std::string format_preprocessing(const Preprocessing& preprocessing);

// `calibration.json`, of a trained model (record/training_record.h):
//
//   {
//     "version": 1,
//     "temperature": 1.37,               the confidence is softmax(logits / temperature)
//     "answers": [[0.431, 3, 2], ...]    of the validation images: confidence, images from it to
//   }                                    the next, and those of them that were right
//
// All keys are required and no others are allowed. Directories written by an older version or by
// another program have no such file; their temperature is 1. Of a model for several labels an image
// the version is 2, and instead of the last two keys there is "classes", a list by class id of
// [temperature, threshold, answers]: the probability is sigmoid(logit / temperature), an image has
// the class from the threshold up, and is right among the answers if it has.
//
// Throws Error kInvalidModelDirectory naming `where` (a path), the key and what was found.
inline constexpr std::size_t kMaxCalibrationBytes = 64 << 20;
Calibration parse_calibration(std::string_view json, const std::string& where);
// Round-trips exactly: parsing the text gives the same values to the last bit.
std::string format_calibration(const Calibration& calibration);

}  // namespace kiln
