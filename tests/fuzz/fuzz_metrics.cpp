// metrics.jsonl, as `kiln report` and `kiln compare` read it.
#include "base/error.h"
#include "fuzz/fuzz.h"
#include "report/page/page.h"
#include "report/run_samples.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  fuzz::accepts<Error>([&] {
    const RunRecord run = parse_run(fuzz::text_of(data, size));
    report_html(run);
    const std::vector<NamedRun> runs = {{"one", run}, {"other", hostile_run()}};
    comparison_html(runs);
    comparison_text(runs);
  });
  return 0;
}
