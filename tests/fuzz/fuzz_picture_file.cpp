// pictures.bin, as `kiln report` reads it beside the record of a run.
#include "fuzz/fuzz.h"
#include "record/picture_file.h"
#include "report/page/page.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  RunRecord run;
  run.start.time = 1;
  run.start.data.classes = {"cat", "<dog>"};
  run.details.epoch = 1;
  const bool is_read =
      read_pictures(fuzz::put("pictures.bin", fuzz::text_of(data, size)), &run).empty();
  fuzz::require(is_read || run.details.pictures.empty());
  results_html(run.start.data, run.details);
  const std::string again = picture_file(run.start.time, run.details);
  fuzz::require(read_pictures(fuzz::put("pictures.bin", again), &run).empty());
  fuzz::require(picture_file(run.start.time, run.details) == again);
  return 0;
}
