// What `--weights URL` does before anything reads the file, for test_fetch.py:
//
//   kiln_fetch_tool URL [SHA256|- [STALL_S [MAX_BYTES]]]     prints the log, then the path
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "base/error.h"
#include "model/weights/fetch_file.h"

int main(int argc, char** argv) try {
  kiln::FetchRequest request;
  if (argc > 1) request.url = argv[1];
  if (argc > 2 && std::string(argv[2]) != "-") request.sha256 = argv[2];
  if (argc > 3) request.stall_s = std::atoi(argv[3]);
  if (argc > 4) request.max_bytes = std::strtoull(argv[4], nullptr, 10);
  kiln::Log log;
  std::printf("%s\n", kiln::fetch_file(request, log).c_str());
  return 0;
} catch (const kiln::Error& error) {
  std::fprintf(stderr, "error %d: %s\n", static_cast<int>(error.code()), error.what());
  return kiln::exit_code(error.code());
} catch (const std::exception& failure) {
  std::fprintf(stderr, "bug in kiln: %s\n", failure.what());
  return 70;
}
