#include "run/prepare/valid_stream.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "data/stream/byte_stream.h"
#include "data/stream/stream_source.h"
#include "run/inputs/stream_inputs.h"

namespace kiln {
namespace {

constexpr std::size_t kPiece = 16 << 20;  // bytes in one broadcast

// The bytes of the stream, of which any count as progress.
class StreamPieces {
 public:
  StreamPieces(const TrainConfig& config, const std::string& name, Log& log)
      : name_(name),
        limits_(silence_limits(config.ranks)),
        warn_([&log](const std::string& text) { log.warning(text); }),
        silence_(watch_, limits_, warn_),
        bytes_(stream_path(config.data.valid_path, 0), watch_) {
    watch_.while_waiting = [this] {
      watch_.images = watch_.received.load();
      silence_.judge(name_);
    };
  }

  // Empty at the end.
  std::string next() {
    std::string piece(kPiece, '\0');
    std::size_t size = 0;
    try {
      for (std::size_t got = 1; got > 0 && size < kPiece; size += got)
        got = bytes_.take_some(piece.data() + size, kPiece - size);
    } catch (const StreamFault& fault) {
      throw error_of_stream(name_, fault);
    }
    piece.resize(size);
    return piece;
  }

 private:
  const std::string& name_;
  const StreamSilence::Limits limits_;
  const StreamSilence::Warn warn_;
  StreamWatch watch_;
  StreamSilence silence_;
  ByteStream bytes_;
};

// Opens the file of `size` bytes that another rank of this host has written.
OpenFile open_file_of_host(const std::string& path, std::uint64_t size, const std::string& name) {
  std::string reason = "it is another file";
  try {
    if (OpenFile file(path); file.size() == size) return file;
  } catch (const std::system_error& fault) {
    reason = fault.code().message();
  }
  throw Error(ErrorCode::kUserError,
              name + ": the stream is in '" + path +
                  "', which this rank of the same host cannot open: " + reason +
                  ". Start the ranks of a host as one user, in one container.");
}

// Runs `action` of a Spool.
void in_spool(const std::string& name, const std::function<void()>& action) {
  try {
    action();
  } catch (const SpoolFault& fault) {
    throw Error(ErrorCode::kUserError,
                name + ": the folder for temporary files cannot hold the stream: " + fault.what() +
                    ". Set TMPDIR to a folder on a local disk with enough space for all of it.");
  }
}

}  // namespace

OpenFile spool_valid_stream(World& world, const TrainConfig& config, Log& log) {
  const bool is_stream =
      config.data.split.data_path.empty() && is_stream_path(config.data.valid_path);
  if (world.broadcast(static_cast<char>(is_stream)) == 0) return {};
  const std::string name = "Validation dataset '" + stream_path(config.data.valid_path, 0) + "'";
  const std::vector<std::string>& hosts = world.hosts();
  const auto rank = static_cast<std::size_t>(world.rank());
  const auto writer =
      static_cast<std::size_t>(std::find(hosts.begin(), hosts.end(), hosts[rank]) - hosts.begin());
  std::optional<StreamPieces> pieces;
  std::optional<Spool> spool;
  world.agree([&] {
    check_valid_stream(config.data);
    if (writer == rank) in_spool(name, [&] { spool.emplace(); });
    if (world.leads()) pieces.emplace(config, name, log);
  });
  std::string piece;
  std::uint64_t size = 0;
  do {
    world.agree([&] {
      if (pieces) piece = pieces->next();
    });
    piece = world.broadcast(piece);
    size += piece.size();
    world.agree([&] {
      if (spool) in_spool(name, [&] { spool->append(piece); });
    });
  } while (!piece.empty());
  OpenFile file;
  if (spool) file = spool->take();
  const std::vector<std::string> paths = world.gather(file.path().string());
  world.agree([&] {
    if (!spool) file = open_file_of_host(paths[writer], size, name);
  });
  return file;
}

}  // namespace kiln
