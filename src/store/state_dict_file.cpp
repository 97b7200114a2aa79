#include "store/state_dict_file.h"

#include "store/legacy_magic.h"

namespace kiln {

StateDict read_state_dict(std::string_view bytes) {
  constexpr std::size_t kSafetensorsBrace = 8;
  if (bytes.empty()) throw FormatFault("it is empty");
  if (bytes.starts_with("PK\x03\x04")) return read_torch_zip(bytes);
  if (begins_like_torch_legacy(bytes)) return read_torch_legacy(bytes);
  if (bytes.size() > kSafetensorsBrace && bytes[kSafetensorsBrace] == '{') {
    return read_safetensors(bytes);
  }
  if (bytes.starts_with("version https://git-lfs")) {
    throw FormatFault("it is a Git LFS pointer, not the file itself; fetch it with 'git lfs pull'");
  }
  throw FormatFault(
      "it begins neither like torch.save's zip, nor like its older format, nor like safetensors");
}

}  // namespace kiln
