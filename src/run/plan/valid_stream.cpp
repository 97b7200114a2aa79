#include "run/plan/valid_stream.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "base/error.h"
#include "data/archive/archive.h"
#include "data/dataset/image_bytes.h"
#include "data/stream/kept_stream.h"
#include "data/stream/stream_source.h"
#include "inputs/stream_inputs.h"

namespace kiln {
namespace {

constexpr std::uint64_t kPiece = 64 << 20;  // bytes of images in one broadcast

std::string piece_of(const OpenFile& file, std::uint64_t at, std::uint64_t size) {
  std::string piece(std::min(kPiece, size - at), '\0');
  if (file.read_at(at, piece.data(), piece.size()) != piece.size())
    throw InternalError("the kept validation stream was truncated");
  return piece;
}

// Copies the images in rank 0's file to all ranks. A rank that has no room for them still takes
// part in all broadcasts.
void share_images(World& world, std::uint64_t most_in_memory, Dataset& set) {
  const std::uint64_t size = world.broadcast(world.leads() ? set.archives.front().file.size() : 0);
  KeptBytes mine(most_in_memory);
  std::exception_ptr failure;
  for (std::uint64_t at = 0; at < size; at += kPiece) {
    const std::string piece =
        world.broadcast(world.leads() ? piece_of(set.archives.front().file, at, size) : "");
    if (world.leads() || failure) continue;
    try {
      mine.append(piece);
    } catch (const SpoolFault& fault) {
      failure = std::make_exception_ptr(
          Error(ErrorCode::kUserError,
                std::string("The validation images do not fit into the memory limit, and ") +
                    fault.what() + ". Raise --cache-bytes, or set TMPDIR to another folder."));
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
  }
  world.agree([&] {
    if (failure) std::rethrow_exception(failure);
  });
  if (world.leads()) return;
  set.memory_bytes = mine.memory_bytes();
  set.archives.front().file = mine.take();
}

}  // namespace

std::optional<Dataset> keep_valid_stream(World& world, const TrainConfig& config, Log& log) {
  const bool is_stream =
      config.data.split.data_path.empty() && is_stream_path(config.data.valid_path);
  if (world.broadcast(static_cast<char>(is_stream)) == 0) return {};
  KeptStreamPlan plan = valid_stream_plan(config, world.local_size());
  plan.warn = [&log](const std::string& text) { log.warning(text); };
  Dataset set;
  world.agree([&] {
    check_valid_stream(config.data);
    if (world.leads()) set = keep_stream(plan);
  });
  if (world.size() == 1) return set;
  const std::string list = world.broadcast(world.leads() ? to_bytes(set, SetParts::kList) : "");
  if (!world.leads()) {
    set = dataset_of(list, SetParts::kList);
    set.root = config.data.valid_path;
    set.name = plan.name;
  }
  share_images(world, plan.most_in_memory, set);
  return set;
}

}  // namespace kiln
