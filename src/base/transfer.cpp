#include "base/transfer.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace kiln {
namespace {

constexpr double kShowSeconds = 0.2, kLogSeconds = 30;

}  // namespace

void Transfer::show(std::uint64_t size) {
  const double now = watch_.seconds();
  if (now - last_shown_ >= kShowSeconds) {
    log_.progress(text(size));
    last_shown_ = now;
  }
  if (now - last_logged_ >= kLogSeconds) {
    log_.milestone(text(size));
    last_logged_ = now;
  }
}

void Transfer::end(std::uint64_t size) const {
  log_.info("Fetched " + bytes_text(size) + " in " + duration_text(watch_.seconds()));
}

std::string Transfer::text(std::uint64_t size) const {
  const double seconds = watch_.seconds();
  const double rate = seconds > 0 ? static_cast<double>(size) / seconds : 0;
  std::string text = "Fetched " + bytes_text(size);
  if (total_ > 0) text += " of " + bytes_text(total_);
  text += ", " + bytes_text(rate) + "/s";
  if (total_ > size && rate > 0)
    text += ", " + duration_text(static_cast<double>(total_ - size) / rate) + " left";
  return text;
}

void require_room(const std::filesystem::path& folder, std::uint64_t size, const std::string& what,
                  const std::string& remedy) {
  std::error_code fault;
  const std::filesystem::space_info space = std::filesystem::space(folder, fault);
  if (fault || space.available >= size) return;
  throw Error(ErrorCode::kFailedToWriteOutputs,
              what + " needs " + bytes_text(size) + " in " + quoted_path(folder) + ", where " +
                  bytes_text(space.available) + " are free. " + remedy);
}

}  // namespace kiln
