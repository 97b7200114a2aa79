// The model of a server: where it is, images as its network takes them, its answers.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/platform/serving.h"
#include "cli/run_config.h"
#include "data/loader/device_uploader.h"
#include "data/loader/loader_threads.h"
#include "predict/job.h"
#include "report/scores/score_formats.h"
#include "tools/serve/requests.h"

namespace kiln {

// An image on its way to the network.
struct PreparedImage {
  BatchBuffer input;                      // floats, or bytes for a GPU; nullptr: the image is bad
  std::vector<std::uint8_t> pixels = {};  // for a heat map
  Region picture = {};                    // of them: without padding
  std::string fault = {};                 // why it is bad, or what is damaged
};

// The answer for one image.
struct ServedAnswer {
  Score score;
  std::optional<Image> heat_map = {};  // none: not wanted, or the last feature map is one pixel
  double decode_seconds = 0, forward_seconds = 0;  // the latter of its batch
};

class ServedModel {
 public:
  // Throws what the constructor of Predictor throws, Error kInvalidModelDirectory if the model does
  // not say how images are prepared, kUserError if --answer-at cannot be reached.
  ServedModel(const std::filesystem::path& folder, const PredictionJob& job,
              const ServeConfig& config);

  const Predictor& predictor() const { return predictor_; }
  const std::vector<std::string>& labels() const { return predictor_.directory.labels; }
  // Writes the row of an answer as `kiln score --all-classes` does, in JSON. On any thread.
  ScoreEncoder& rows() const { return *rows_; }
  // Of a row at most, but for the name and the fault of the image.
  std::size_t row_bytes() const { return row_bytes_; }
  const std::optional<double>& unsure_in_validation() const { return unsure_in_validation_; }

  // On any thread. A larger image than `max_pixels` is bad.
  PreparedImage prepare(const EncodedImage& image, LoaderThreads::Decoder& decoder,
                        long long max_pixels) const;
  // On one thread. The images are not bad, and at most a batch.
  std::vector<ServedAnswer> answer(const std::vector<const PreparedImage*>& images);
  // Whether its last batches have all failed, as they do for ever after a fault of a GPU. On any
  // thread.
  bool is_failing() const { return num_unanswered_ > kMaxUnanswered; }

 private:
  Log& log_;
  Predictor predictor_;
  const TransformSpec pixels_;
  const HostBatchLayout layout_;
  const std::size_t input_bytes_;
  DeviceUploader uploader_;
  HostBatch batch_;
  const AnswerPlan plan_;
  const std::unique_ptr<ScoreEncoder> rows_;
  const std::size_t row_bytes_;
  std::optional<double> unsure_in_validation_;
  static constexpr int kMaxUnanswered = 5;
  std::atomic<int> num_unanswered_ = 0;  // batches since the last answer, with the current one
};

struct FoundModel {
  std::filesystem::path path;   // a folder or a packed one
  bool is_of_platform = false;  // which put it there for a server
};

// Where the model is: `given`, or else the first of where the platforms put one, or else `model`; a
// folder, a model.tar.gz, or a folder with one of these in it. Throws Error kUserError if it is in
// a bucket.
FoundModel find_served_model(const std::string& given, const ServingPlace& place);

// Throws what the constructor throws, and Error kInvalidModelDirectory if the model cannot be
// unpacked.
std::shared_ptr<ServedModel> open_served_model(const ServeConfig& config,
                                               const std::filesystem::path& path,
                                               const PredictionJob& job);

}  // namespace kiln
