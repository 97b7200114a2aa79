// Checkpoints of a run: a folder with the newest few, written so that neither a kill, a full disk,
// nor a mounted object store (without atomic rename or append) ever damages an earlier one.
//
//   DIR/checkpoint-000007/state.json         everything but tensors and the record
//   DIR/checkpoint-000007/metrics.jsonl      the record of the run so far
//   DIR/checkpoint-000007/state.safetensors  what Checkpoints::write() says (run/checkpoint)
//   DIR/checkpoint-000007/checkpoint.json    written last: sizes and hashes of the files
//   DIR/best-000005.safetensors              weights of the best epoch, for all that name it
//
// Numbers only increase. A checkpoint is complete if its checkpoint.json exists and all sizes and
// hashes match. The newest checkpoint is the complete one with the highest number.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/output_folder.h"
#include "store/state_dict_file.h"

namespace kiln {

// The contents to write. The views must outlive the call.
struct CheckpointView {
  std::string_view state_json;           // a JSON object
  std::string_view record;               // metrics.jsonl
  std::vector<TensorView> tensors = {};  // state.safetensors; unique names
  std::vector<TensorView> best = {};     // weights of the best epoch; empty: none yet
  int best_epoch = 0;                    // its file is rewritten only when this changes
};

// A checkpoint as read, with all sizes and hashes verified.
struct Checkpoint {
  std::filesystem::path path;
  std::string state_json, record;
  StateDict tensors;
  StateDict best;  // empty: none yet
  int best_epoch = 0;
  std::uint64_t bytes = 0;  // total size of its files, including that of `best`
};

// Whether `path` looks like a folder of checkpoints or like one checkpoint, complete or not.
bool is_checkpoint(const std::filesystem::path& path);

// Reads a checkpoint. `path` is one checkpoint, or a folder of checkpoints, of which the newest
// complete one is read. A run may be writing there meanwhile. `skipped`: see
// CheckpointFolder::newest(). Throws Error kInvalidModelDirectory if there is no complete
// checkpoint.
Checkpoint read_checkpoint(const std::filesystem::path& path, std::vector<std::string>& skipped);

// A file as checkpoint.json lists it.
struct CheckpointFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;  // content_hash()
};

// Throws an Error if a checkpoint's state.json cannot be used.
using StateCheck = std::function<void(const std::string& state_json)>;

// A checkpoint that is not used.
struct UnusedCheckpoint {
  std::string why;          // a clause
  bool is_damaged = false;  // false: of another version of the program, or it could not be read
};

// How many of the newest checkpoints a run keeps.
inline constexpr int kKeptCheckpoints = 2;

// A folder with the checkpoints of one run, locked while this object exists. May be used by any
// thread, but only one at a time.
class CheckpointFolder {
 public:
  // Creates the folder and its parents if they are missing, locks it, and writes and removes a
  // probe file. Throws Error kFailedToWriteOutputs if that fails, if another run holds the lock, or
  // if the folder is a model directory or holds anything but checkpoints, names that begin with a
  // dot, and lost+found. `keep`: how many checkpoints to keep, at least 1.
  CheckpointFolder(std::filesystem::path folder, int keep);

  const std::filesystem::path& path() const { return folder_.path(); }

  // The newest complete checkpoint, if any, for whose state.json `check` does not throw an Error.
  // For each newer one `skipped` receives a clause: its name, and why it is not used.
  std::optional<Checkpoint> newest(std::vector<std::string>& skipped, const StateCheck& check = {});

  // Whether a checkpoint that newest() did not use has all of its own files, as far as can be told,
  // and so is not just what a kill left of one.
  bool holds_unused() const;

  // Starts over: the next write() removes all present checkpoints, but only after it has succeeded.
  void restart();

  // Writes the next checkpoint and returns its folder, then removes damaged ones and those beyond
  // `keep`, but none that may be whole for another program or at another time; what cannot be
  // removed is tried again next time. Throws Error kFailedToWriteOutputs: the partial checkpoint is
  // then removed as far as possible, earlier ones remain, and the next write() may succeed. Uses no
  // extra memory proportional to the tensors.
  std::filesystem::path write(const CheckpointView& view);

 private:
  std::int64_t next_number() const;
  void remove_old() const;
  void remove_unused_best() const;

  OutputFolder folder_;
  int keep_;
  std::int64_t oldest_ = 0;                          // smaller numbers belong to an earlier run
  std::map<std::int64_t, UnusedCheckpoint> unused_;  // by newest(), by number
  std::optional<CheckpointFile> best_;               // already written, for epoch best_epoch_
  int best_epoch_ = 0;
};

// For tests: the files of a checkpoint, and the contents of checkpoint.json.
inline constexpr std::array<std::string_view, 3> kCheckpointFiles{"state.json", "metrics.jsonl",
                                                                  "state.safetensors"};

struct CheckpointManifest {
  std::vector<CheckpointFile> files;   // kCheckpointFiles, in this order
  std::optional<CheckpointFile> best;  // in the parent folder
  int best_epoch = 0;
};

std::string format_manifest(const CheckpointManifest& manifest);
// Throws FormatFault. No name in the result points outside the folder.
CheckpointManifest parse_manifest(std::string_view json);

// Writes checkpoints on a background thread while training continues: one at a time, without a
// queue. To be called from one thread.
class CheckpointWriter {
 public:
  // The folder must outlive it. The destructor waits.
  explicit CheckpointWriter(CheckpointFolder& folder) : folder_(folder) {}

  bool is_busy() const;
  // Waits for the checkpoint being written, if any, then starts the new one. What `view` refers to
  // must not change until the writer is no longer busy.
  void begin(CheckpointView view);
  void wait();

  // The reason for the most recent failure since the last call; empty if there was none.
  std::string take_failure();

 private:
  CheckpointFolder& folder_;
  std::string failure_;
  std::future<std::string> writing_;  // why it failed; last: it waits for the thread
};

}  // namespace kiln
