#include "data/dataset/dataset.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

RecordOptions all_options() {
  RecordOptions options;
  options.columns = {{"label", "kind"}};
  options.list_roots = {{"", "photos"}};
  options.list_sets = {"valid"};
  options.keys.label = "kind";
  options.first_label = 1;
  return options;
}

TEST(UnusedOptions, AreThoseForDataOfAnotherForm) {
  Dataset folders, list, records;
  folders.kind = Dataset::Kind::kClassFolders;
  list.kind = Dataset::Kind::kLabelList;
  records.kind = Dataset::Kind::kRecords;
  records.first_label = 1;
  const auto note = [](const std::vector<const Dataset*>& sets) {
    return note_of_unused(all_options(), sets);
  };
  EXPECT_EQ(note({&folders}),
            "--columns (for lists of labels), --list-root (for lists of labels), --split-name (for "
            "lists of labels), --record-keys (for record files), --first-label (for labels that "
            "are numbers) have no effect: the data are of the form class folders");
  EXPECT_EQ(note({&folders, &list}),
            "--record-keys (for record files), --first-label (for labels that are numbers) have no "
            "effect: the data are of the form class folders and list of labels");
  EXPECT_EQ(note({&list, &records}), "");
  EXPECT_EQ(note_of_unused({}, {&folders}), "");
  EXPECT_EQ(note_of_unused({}, {&folders}, {"--shuffle-buffer (for streams)"}),
            "--shuffle-buffer (for streams) has no effect: the data are of the form class folders");
}

}  // namespace
}  // namespace kiln
