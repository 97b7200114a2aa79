// Checkpoints of a run: a folder that holds the newest few, written so that a kill, a full disk or
// a mount of an object store (no atomic rename, no append) never costs an earlier one.
//
//   DIR/checkpoint-000007/state.json         everything but tensors and the record
//   DIR/checkpoint-000007/metrics.jsonl      the record of the run so far
//   DIR/checkpoint-000007/state.safetensors  weights, optimizer, statistics of the ranks
//   DIR/checkpoint-000007/checkpoint.json    written last: sizes and hashes of the files
//   DIR/best-000005.safetensors              weights of the best epoch, for all that name it
//
// Numbers only grow. A checkpoint is complete if its checkpoint.json is there and all sizes and
// hashes are right; the newest one is the complete one with the highest number.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/output_folder.h"
#include "store/state_dict_file.h"
#include "store/tensor.h"

namespace kiln {

// What is written; the views must outlive the call.
struct CheckpointView {
  std::string_view state_json;      // a JSON object
  std::string_view record;          // metrics.jsonl
  std::vector<TensorView> tensors;  // state.safetensors; unique names
  std::vector<TensorView> best;     // weights of the best epoch; empty: none yet
  int best_epoch = 0;               // its file is written again only when this changes
};

// What is read; every size and hash was right.
struct Checkpoint {
  std::filesystem::path path;
  std::string state_json, record;
  StateDict tensors;
  StateDict best;  // empty: none yet
  int best_epoch = 0;
  std::uint64_t bytes = 0;  // of its files, that of `best` included
};

// Whether `path` looks like a folder of checkpoints or one checkpoint in it, complete or not.
bool is_checkpoint(const std::filesystem::path& path);

// `path` is a folder of checkpoints, of which the newest complete one is read, or one checkpoint in
// it. A run may be writing there. `skipped` as of CheckpointFolder::newest(). Error
// kInvalidModelDirectory if there is no complete one.
Checkpoint read_checkpoint(const std::filesystem::path& path, std::vector<std::string>& skipped);

// A file as checkpoint.json lists it.
struct CheckpointFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;  // content_hash()
};

// The checkpoints of one run at a time, which holds a lock on the folder. Only one thread at a time
// may use it, not always the same one.
class CheckpointFolder {
 public:
  // Makes the folder and its parents where they are missing, locks it, and writes and removes a
  // probe file. Error kFailedToWriteOutputs where that fails or another run holds the lock, and for
  // a model directory or a folder that holds anything but checkpoints, names that begin with a dot,
  // and lost+found. `keep`: how many checkpoints stay, at least 1.
  CheckpointFolder(std::filesystem::path folder, int keep);

  const std::filesystem::path& path() const { return folder_.path(); }

  // The newest complete one, if any. For each newer one that is incomplete, `skipped` gets a
  // clause: its name, and why.
  std::optional<Checkpoint> newest(std::vector<std::string>& skipped);

  // All that is there now goes once the next write() is done, not before.
  void begin_anew();

  // Writes the next one, then removes those beyond `keep`; what cannot be removed is tried again
  // the next time. Returns its folder. Error kFailedToWriteOutputs: what was begun is removed as
  // far as possible, the earlier ones stand, and the next write() may succeed. Needs no memory in
  // proportion to the tensors.
  std::filesystem::path write(const CheckpointView& view);

 private:
  std::int64_t next_number() const;
  void remove_old() const;
  void remove_unused_best() const;

  OutputFolder folder_;
  int keep_;
  std::int64_t oldest_ = 0;                      // smaller numbers are of an earlier run
  std::map<std::int64_t, std::string> damaged_;  // which newest() found incomplete
  std::optional<CheckpointFile> best_;           // there already, for the epoch best_epoch_
  int best_epoch_ = 0;
};

// What follows is for the reader and the writer.

inline constexpr std::string_view kManifestFile = "checkpoint.json";
inline constexpr std::array<std::string_view, 3> kCheckpointFiles{"state.json", "metrics.jsonl",
                                                                  "state.safetensors"};

std::string checkpoint_name(std::int64_t number);
std::string best_name(std::int64_t number);
std::optional<std::int64_t> checkpoint_number(std::string_view name);
std::optional<std::int64_t> best_number(std::string_view name);

// checkpoint.json.
struct CheckpointManifest {
  std::vector<CheckpointFile> files;   // kCheckpointFiles, in this order
  std::optional<CheckpointFile> best;  // in the folder above
  int best_epoch = 0;
};

class NewerFormat : public FormatFault {
  using FormatFault::FormatFault;
};

std::string format_manifest(const CheckpointManifest& manifest);
// Throws FormatFault, or NewerFormat. No name in the result leads out of the folder.
CheckpointManifest parse_manifest(std::string_view json);
// The same of a checkpoint's folder.
CheckpointManifest read_manifest(const std::filesystem::path& folder);
// Throws FormatFault unless the files of the checkpoint `folder` have the sizes listed.
void check_sizes(const std::filesystem::path& folder, const CheckpointManifest& manifest);

struct CheckpointNumbers {
  std::set<std::int64_t> checkpoints, best;
};
// Complete or not. Throws std::filesystem::filesystem_error.
CheckpointNumbers numbers_in(const std::filesystem::path& folder);

// The newest complete one in `folder`, if any; `damaged` gets the numbers of the newer ones and why
// they are incomplete. Throws std::filesystem::filesystem_error.
std::optional<Checkpoint> newest_checkpoint(const std::filesystem::path& folder,
                                            std::map<std::int64_t, std::string>& damaged);
// The clauses for `skipped`, newest last.
std::vector<std::string> clauses_of(const std::map<std::int64_t, std::string>& damaged);

}  // namespace kiln
