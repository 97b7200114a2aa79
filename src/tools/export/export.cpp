#include "tools/export/export.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "parallel/processors/processors.h"
#include "record/run_summary.h"
#include "tools/commands.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

struct ExportFormat {
  std::string_view name;  // of --format
  FormatWriter* files;
  bool is_folder = false;
};

constexpr std::array kFormats{
    ExportFormat{"onnx", onnx_files},
    ExportFormat{"torchvision", torchvision_files},
    ExportFormat{"timm", timm_files, /*is_folder=*/true},
    ExportFormat{"mlflow", mlflow_files, /*is_folder=*/true},
};

// An earlier export may be in use, and a folder may hold anything.
void require_new(const fs::path& output) {
  if (type_of_entry(output) != fs::file_type::not_found)
    throw Error(ErrorCode::kFailedToWriteOutputs,
                "--output-path: " + quoted_path(output) + " exists: remove it, or give another.");
}

// All files are complete before the first one appears. `folder`: the output, if it is one. Returns
// their bytes.
long long write_files(const std::string& output, const std::vector<OutputFile>& files,
                      const std::optional<OutputFolder>& folder) {
  long long bytes = 0;
  std::vector<DurableFile> complete;
  for (const OutputFile& file : files) {
    const fs::path path = output + file.name;
    folder ? void(make_folders(path.parent_path())) : require_new(path);
    complete.push_back(complete_file(path, file.bytes));
    bytes += static_cast<long long>(file.bytes.size());
  }
  if (folder)
    folder->replace(std::move(complete), {});
  else
    for (DurableFile& file : complete) file.commit();
  return bytes;
}

}  // namespace

int run(const ExportConfig& config, Process& process) {
  end_on_stop_signals();
  use_compute_threads(usable_cpus());
  const auto* const format = std::ranges::find(kFormats, config.format, &ExportFormat::name);
  std::optional<OutputFolder> folder;
  if (format->is_folder) {
    folder.emplace(config.output_path);
    folder->require_empty();
    folder->prepare();
  } else {
    require_new(config.output_path);
    require_writable(config.output_path);
  }
  std::optional<Predictor> model;
  std::vector<OutputFile> files;
  read_one_model(config.trained_model_path, [&] {  // formats read its weights and record, too
    model.emplace(config.trained_model_path, at::kCPU, Precision::kFp32);
    files = format->files({config, *model});
  });
  for (const std::string& note : model->notes) process.log.warning(note);
  const long long bytes = write_files(config.output_path, files, folder);
  process.log.info("Wrote '" + config.output_path + "' (" + bytes_text(bytes) + "), " +
                   config.format + " of " + model->directory.spec.model_name + " with " +
                   plural(model->directory.labels.size(), "class", "classes") + ".");
  return 0;
}

}  // namespace kiln
