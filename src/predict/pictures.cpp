#include "predict/pictures.h"

#include <string>

#include "base/error.h"
#include "base/files.h"
#include "base/platform/installation.h"

namespace kiln {
namespace {

struct Opening {
  const PicturesModule* module = nullptr;
  std::string fault;
};

constexpr const char *kFile = "libkiln_pictures.so", *kRemedy = "Install Kiln again.";

// Builds with sanitizers lack the module, and end the process when one is opened so.
Opening opened() {
  if (const auto path = part_of_program(kFile); !is_there(path))
    return {nullptr, "'" + path.string() + "' is missing. " + kRemedy};
  try {
    return {
        &open_module<PicturesModule>(kFile, kPicturesModuleSymbol, kPicturesModuleVersion, kRemedy),
        ""};
  } catch (const Error& fault) {
    return {nullptr, fault.message()};
  }
}

const Opening& opening() {
  static const Opening kFound = opened();
  return kFound;
}

}  // namespace

const PicturesModule* pictures_module() {
  return opening().module;
}

const PicturesModule& require_pictures_module() {
  if (opening().module != nullptr) return *opening().module;
  throw Error(ErrorCode::kFailedToCompleteOperation, "No picture can be drawn: " + opening().fault);
}

void warn_without_pictures(Log& log) {
  static bool is_told = false;
  if (opening().module != nullptr || std::exchange(is_told, true)) return;
  log.warning(
      "Pictures for people are left out (thumbnails, heat maps, contact sheets, and of an audit "
      "the flaws of images): " +
      opening().fault);
}

}  // namespace kiln
