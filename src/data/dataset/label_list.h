// A list of images and their labels, given in place of a folder: a table, JSON, or the export of
// another program. A format is a row of a table and a reader that turns its text into plain rows;
// what rows mean is decided here, once. docs/data.md ("Lists") shows each format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/archive/archive.h"
#include "data/dataset/dataset.h"
#include "data/dataset/listing.h"

namespace kiln {

// ---- columns, defined in list_columns.cpp ----

enum class ListField { kPath, kLabel, kSet, kGroup, kWeight, kConfidence };
inline constexpr std::size_t kNumListFields = 6;

inline constexpr std::size_t kNoColumn = SIZE_MAX;

// Why a row cannot be used, as a clause.
class RowFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

using ListPlaces = std::array<std::size_t, kNumListFields>;
inline constexpr ListPlaces kNoPlaces = {kNoColumn, kNoColumn, kNoColumn,
                                         kNoColumn, kNoColumn, kNoColumn};

// Which column of a list has which field: by usual names, in any case, or as --columns says.
class ListColumns {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  explicit ListColumns(const Pairs& given, bool has_several_labels = false)
      : given_(given), is_met_(given.size()), has_several_labels_(has_several_labels) {}

  // Also remembers that there is such a column.
  std::optional<ListField> field_of(std::string_view column);
  bool is_given(ListField field) const;  // by --columns
  // Throws RowFault if --columns gives a key or a column twice.
  void refuse_repeats() const;
  // The place of each field among the columns; empty if none has the path. Throws RowFault if two
  // columns have one field, a column of --columns is not there, or an image may have several labels
  // and there is a second column of them.
  std::optional<ListPlaces> places(const std::vector<std::string>& columns);
  // The places among so many columns that --columns gives as numbers; empty if that of the path is
  // no number. Throws RowFault if another one is none, or there is no such column.
  std::optional<ListPlaces> numbers(std::size_t num_columns);
  // The columns of --columns that there are not, so far, in quotes.
  std::vector<std::string> missing() const;

  // Throws RowFault if an image may have several labels and `column` has some beside those of the
  // column `label`: they would count as classes that the image has not.
  void refuse_second_label(const std::string& label, const std::string& column) const;

 private:
  const Pairs& given_;
  std::vector<bool> is_met_;  // of given_
  const bool has_several_labels_;
};

// "17" of "17.0"; any other text as it is.
std::string_view without_zero_fraction(std::string_view text);

// "17" of "17.0" and "017", as programs write one number; any other text as it is.
std::string_view plain_number(std::string_view text);

// Columns that have no field: those that say which set an image is of, and those of 0 and 1 that
// say whether an image has the class of the column's name.
class OtherColumns {
 public:
  // Whether a column says the set by its name.
  static bool has_usual_name(std::string_view column);

  // A value of the next row.
  void see(std::string_view column, std::string_view value);
  // Ends a row: which columns have a 1 in it, by their places in flags().
  std::vector<int> end_row();
  // The columns, and whether each has had nothing but 0 and 1, in every row.
  std::vector<std::pair<std::string, bool>> flags() const;
  // How to have the column of sets read; empty if there is none.
  std::string note() const;

 private:
  struct Seen {
    std::set<std::string> words;  // none: the column holds no sets
    bool has_usual_name = false;
    int place = 0;              // in the order of the columns
    std::size_t num_flags = 0;  // rows with 0 or 1
  };
  std::map<std::string, Seen, std::less<>> columns_;
  std::vector<int> ones_;  // of this row
  std::size_t num_rows_ = 0;
};

// ---- rows ----

// An image as the list has it.
struct ListedRow {
  int line = 0;
  // Empty: there is none. A list of labels has kListedLabelEnd after each.
  std::array<std::string, kNumListFields> fields = {};
  // Whether there is data for a label: an empty one is that of an image of no class, with --task
  // multi-label.
  bool has_label = false;
  // For an image whose bytes are in the list; its path is then its file extension.
  const ArchiveMember* member = nullptr;

  std::string& operator[](ListField field) { return fields[static_cast<std::size_t>(field)]; }
  const std::string& operator[](ListField field) const {
    return fields[static_cast<std::size_t>(field)];
  }
};

inline constexpr char kListedLabelEnd = '\x1f';  // in no label, since it is a control character
// Of an image for which the list has no label.
inline constexpr std::string_view kNoListedLabels(&kListedLabelEnd, 1);

// Takes the rows of a list, and becomes its listing. Faults of rows are collected.
class ListRows {
 public:
  // `context.root` is the list. It must outlive the object.
  explicit ListRows(const DatasetContext& context);

  // The folder where relative paths begin.
  const std::string& root() const { return root_; }

  void add(const ListedRow& row);
  void fault(int line, const std::string& clause);

  // Whether columns of 0 and 1 are read where no column has labels.
  bool wants_flags() const;

  // The names of numbers, and what gives them, if the list does. Throws RowFault if it has given
  // others.
  void name_classes(std::vector<std::string> names, const std::string& named_by);

  // Throws Error kInvalidDataset: the first ten faults, and how many there are.
  Listing take();

  const DatasetContext& context;
  // Its archive is the file with the images whose bytes are in the list, and their column.
  Dataset set;
  ListColumns columns;
  OtherColumns other_columns;  // the columns without a field, value by value
  const char* unit = "line";   // what a row's number counts
  int num_read = 0;            // rows of Parquet files
  bool has_columns = true;     // --columns applies
  bool has_marks = false;      // labels of which there may be several end with kListedLabelEnd
  std::string question;        // that Label Studio's choices answer; empty: none so far

 private:
  std::optional<ListedSet> set_of(const ListedRow& row);
  std::string absolute(std::string_view name) const;
  std::optional<std::string> name_of(const ListedRow& row, bool is_wanted = true);
  std::string with_extension(std::string name);
  void pass_over(const ListedRow& row);
  int label_of(std::string_view text);
  int labels_of(const ListedRow& row);
  std::string shown_label(int label) const;
  void refuse_several();
  void label_by_flags();
  void refuse_faults() const;
  void place(const std::vector<bool>& keep);
  std::vector<bool> first_of_each();
  void repeat(std::size_t earlier, std::size_t later);
  void find_files();
  void add_labels();

  std::string root_, absolute_root_;  // where relative paths begin
  std::string plain_folder_;  // of the last row with a "..", which leads through no link and back
  std::vector<std::pair<std::string, std::string>> prefixes_;  // and their folders, absolute
  std::map<std::string, FolderEntries> folders_;               // of names without an extension
  std::string common_;  // the deepest folder with all images of other sets; empty: there are none
  std::vector<int> lines_;           // of the images
  std::vector<int> flags_of_rows_;   // flags_.label_of() what columns of 0 and 1 say
  std::vector<std::string> labels_;  // distinct
  std::unordered_map<std::string, int> label_ids_;
  LabelSets sets_;                                // with --task multi-label: of labels_
  LabelSets flags_;                               // of the places in other_columns.flags()
  std::array<std::size_t, 4> num_left_out_ = {};  // by set
  bool has_sets_ = false, has_absolute_ = false, has_lists_ = false;
  std::map<std::string, std::size_t> unmapped_;  // prefixes of paths, with the number of rows
  std::vector<std::string> faults_;              // the first ten
  std::size_t num_faults_ = 0;
  std::size_t num_repeated_ = 0;
  long long num_missing_groups_ = 0;
};

// The text of the list, without a byte-order mark. Throws Error kInvalidDataset; for UTF-16 too.
std::string text_of_list(const DatasetContext& context);

// The readers of the formats.
void read_table(ListRows& rows);  // list_tables.cpp
void read_mxnet_list(ListRows& rows);
void read_plain_list(ListRows& rows);
void read_json_list(ListRows& rows);     // list_json.cpp
void read_parquet_list(ListRows& rows);  // list_parquet.cpp

// The COCO file `context.root`, with its images below `folder`; empty if it is none.
std::optional<Listing> list_coco_file(const DatasetContext& context, const std::string& folder);

}  // namespace kiln
