// Small state dicts and files for the tests of store/.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "store/state_dict_file.h"

namespace kiln {

inline std::string counting_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + 3);
  return bytes;
}

inline StateDict sample_state() {
  return {{"model.conv.weight", DType::kFloat32, {2, 3, 1, 2}, counting_bytes(48)},
          {"model.bn.count", DType::kInt64, {}, counting_bytes(8)},
          {"model.half", DType::kFloat16, {5}, counting_bytes(10)},
          {"model.brain", DType::kBFloat16, {300}, counting_bytes(600)},
          {"model.empty", DType::kFloat32, {0, 3}, ""},
          {"model.\xc3\xa4", DType::kBool, {3}, std::string("\1\0\1", 3)}};
}

inline std::filesystem::path shared_folder() {
  const char* given = std::getenv("KILN_SHARED");
  return given != nullptr ? std::filesystem::path(given)
                          : std::filesystem::path(KILN_SOURCE_DIR) / ".." / "shared";
}

// torch.save's old format: a float tensor 'w' of shape [2] with the values 1 and 2.
inline std::string legacy_sample() {
  using namespace std::string_literals;
  std::string bytes = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."s;
  bytes += "\x80\x02M\xe9\x03."s;
  bytes += "\x80\x02}q\0(X\x10\0\0\0protocol_versionq\1M\xe9\x03X\x0d\0\0\0little_endianq\2\x88u."s;
  bytes +=
      "\x80\x02"
      "ccollections\nOrderedDict\nq\0)Rq\1X\1\0\0\0wq\2"s;
  bytes += "ctorch._utils\n_rebuild_tensor_v2\nq\3((X\7\0\0\0storageq\4ctorch\nFloatStorage\nq\5"s;
  bytes +=
      "X\1\0\0\0"
      "7q\6X\3\0\0\0cpuq\7K\2NtQK\0K\2\x85K\1\x85\x89h\0)RtRs."s;
  bytes +=
      "\x80\x02]q\0X\1\0\0\0"
      "7q\1a."s;
  bytes += "\2\0\0\0\0\0\0\0"s + "\0\0\x80\x3f\0\0\0\x40"s;
  return bytes;
}

}  // namespace kiln
