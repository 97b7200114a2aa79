// Lists of images and labels: the first byte chooses the form.
#include <array>

#include "base/error.h"
#include "data/dataset/dataset.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  constexpr std::array kNames = {"l.csv", "l.tsv", "l.txt", "l.lst", "l.json", "l.jsonl"};
  for (const char* image : {"a.jpg", "cat/b.jpg"}) fuzz::put(image, "image");
  if (size == 0) return 0;
  const std::filesystem::path list =
      fuzz::put(kNames[data[0] % kNames.size()], fuzz::text_of(data + 1, size - 1));
  for (const TaskKind task : {TaskKind::kAuto, TaskKind::kMultiLabel}) {
    const RecordOptions options{.list_roots = {{"s3://b/", fuzz::folder().string()}}, .task = task};
    fuzz::accepts<Error>([&] {
      const Dataset set = read_labeled_dataset(list, "Training dataset", options);
      counts_by_class(set, set.classes.size());
      for (std::size_t i = 0; i < set.samples.size(); ++i) {
        fuzz::require(set.samples.file_name(i).find("..") == std::string_view::npos);
        set.label_text(set.samples.label(i));
      }
    });
  }
  return 0;
}
