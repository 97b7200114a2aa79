// The options of `kiln serve`.
#include <string>

#include "base/text.h"
#include "cli/rows.h"

namespace kiln {
namespace {

const std::string kServer = "Server", kLimits = "Limits";

Rows<ServeConfig> serve_rows() {
  using Config = ServeConfig;
  using Prediction = PredictionConfig;
  return {
      opt(&Config::trained_model_path, "trained-model-path", model_path("DIR"),
          {kPaths, kPositional},
          "ModelDirectory of a trained model, or its model.tar.gz. Default: the first of "
          "/opt/ml/model, $AZUREML_MODEL_DIR, /mnt/models and model in which there is one."),
      opt(&Config::host, "host", path("ADDRESS", ValueKind::kText), kServer,
          "Address to listen on. Default: 127.0.0.1; in the image, on Vertex AI, and with the "
          "model of a platform 0.0.0.0, which is all, also of IPv6."),
      opt(&Config::port, "port", from(0, 65535), kServer,
          "Port to listen on; 0: any free one, which the first lines tell. Default: "
          "AIP_HTTP_PORT or SAGEMAKER_BIND_TO_PORT, else 8080."),
      opt(&Config::unix_socket, "unix-socket", path("PATH"), kServer,
          "Listen on a socket in a folder instead, for programs of this user on this machine "
          "alone; "
          "at most 107 bytes. If standard input is a pipe, the server ends when that is closed."),
      opt(&Config::key_file, "key-file", path("FILE"), kServer,
          "Text file with a key that clients must send as Authorization: Bearer KEY. Health and "
          "the page need none."),
      opt(&Config::access_log, "access-log", path("FILE|-"), kServer,
          "Append a line of JSON for each request: its id, route, status, times and class, never "
          "the image. -: to standard output."),
      answer_rows<Config>(),
      opt(&Config::max_body_mib, "max-body-mib", auto_or(1, 1024, "MiB"), kLimits,
          "Largest body of a request, and answer to several images, else status 413. All "
          "together may take 8 times that, at least 256 MiB, else 503. auto: 25, or "
          "SAGEMAKER_MAX_PAYLOAD_IN_MB."),
      opt(&Config::max_megapixels, "max-megapixels", from(1, 178, "million pixels"), kLimits,
          "Largest image, by its header; a larger one is not decoded."),
      opt(&Config::max_seconds, "max-seconds", from(1, 3600, "s"), kLimits,
          "Time for the headers of a request to arrive, for its body, and for a response to be "
          "taken; also how long a connection may be idle. Then it is closed."),
      opt(&Config::max_connections, "max-connections", from(1, 100'000, "connections"), kLimits,
          "Open connections, else status 503."),
      opt(&Config::max_queue, "max-queue", from(1, kMillion, "images"), kLimits,
          "Images that wait or are being answered, else status 503 with Retry-After."),
      within(
          &Config::prediction,
          {opt(&Prediction::batch_size, "max-batch", from(1, 4096, "images"), kMachine,
               "Largest batch. An idle model answers at once; images are gathered only while it is "
               "busy.")}),
      opt(&Config::max_delay_ms, "max-delay-ms", from(0, 10'000, "ms"), kMachine,
          "Longest time that a gathered image waits for others that are being decoded, on a GPU."),
      within(
          &Config::prediction,
          {opt(&Prediction::precision, "precision", kPrecisions, kMachine,
               "Numeric precision, as in training."),
           opt(&Prediction::device, "device", kDevices, kMachine,
               "Device to compute on. auto: the GPU if an NVIDIA device is present, else the CPU."),
           opt(&Prediction::threads, "threads", auto_or(1, 1024, "threads"), kMachine,
               "Compute threads. auto: one per processor."),
           opt(&Prediction::loader_threads, "loader-threads", auto_or(1, 256, "threads"), kMachine,
               "Threads that read requests and decode images. auto: one per processor; with a "
               "GPU all but two.")}),
  };
}

void check_serve(Given& given, ServeConfig& config) {
  constexpr std::size_t kMaxSocketPath = 107;  // of the system
  if (config.unix_socket.size() > kMaxSocketPath)
    given.refuse("unix-socket",
                 formatted("has %zu bytes; the system allows %zu: give a shorter path, as in /tmp.",
                           config.unix_socket.size(), kMaxSocketPath));
  if (!config.unix_socket.empty() && (config.host || config.port))
    given.refuse("unix-socket", "listens in a folder: leave --host and --port out.");
  if (config.answer_at && config.min_confidence)
    given.refuse("answer-at", "and --min-confidence both set the threshold: give one.");
  if (config.max_queue < config.prediction.batch_size)
    given.refuse(
        "max-queue",
        formatted("is %d, but a batch may have %d images (--max-batch): give at least that.",
                  config.max_queue, config.prediction.batch_size));
}

}  // namespace

CommandInfo serve_command() {
  return command(
      "serve",
      "Answer HTTP requests with a trained model: photos as JSON answers, a page, and the "
      "contracts of SageMaker, Azure ML, Vertex AI, KServe and Triton clients.",
      "[MODEL] [options]", serve_rows(), check_serve);
}

}  // namespace kiln
