// What mpirun prints, the ranks' own lines among it, in pieces.
#include "fuzz/fuzz.h"
#include "tools/launch/mpirun_job.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  const std::string bytes = fuzz::text_of(data, size);
  JobMonitor monitor({"node1", "node2"});
  OutputSplitter splitter([&](const OutputLine& line) { monitor.take(line); });
  const std::size_t piece = bytes.empty() ? 1 : 1 + static_cast<unsigned char>(bytes[0]);
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    splitter.feed(std::string_view(bytes).substr(at, piece));
  splitter.finish();
  for (const int code : {1, 137}) monitor.last_lines(monitor.failure(code).rank);
  return 0;
}
