// Lists in Parquet: tables of paths and labels, and Hugging Face's datasets, whose images may be
// in the file. Arrow is in a module, which few runs need.
#include <algorithm>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/names.h"
#include "base/platform/installation.h"
#include "base/text.h"
#include "data/dataset/label_list.h"
#include "data/image/image.h"
#include "modules/arrow/module.h"

namespace kiln {
namespace {

constexpr const char* kRemedy =
    "Parquet files need pip's extra kiln-trainer[parquet], or Kiln installed again. Or give a list "
    "that ends in .csv or .jsonl.";
constexpr std::string_view kBytes = ".bytes";
constexpr std::int64_t kMaxTextBytes = std::int64_t{2} << 30;  // of a column in a row group

// The files of a list: one, or all in a folder.
std::vector<std::string> files_of(const DatasetContext& context) {
  return is_folder(context.root) ? find_packed_files(context).lists : std::vector<std::string>{""};
}

// Calls `use` with the file, and gives Arrow's faults the list's name.
template <typename Use>
void with_file(const DatasetContext& list, const std::string& name, Use&& use) {
  const ArrowModule& module = arrow_module(kRemedy);
  const DatasetContext context{.root = path_of_archive(list, name), .name = list.name};
  std::unique_ptr<ParquetReader> file;
  try {
    file = module.open(context.root.string());
    use(*file);
  } catch (const std::invalid_argument& fault) {
    context.fail(std::string("it ") + fault.what() + ".");
  } catch (const RowFault&) {
    throw;
  } catch (const SpoolFault& fault) {
    context.fail(std::string("its images do not fit into the folder for temporary files: ") +
                     fault.what() + ". Set TMPDIR to a folder with enough space.",
                 ErrorCode::kUserError);
  } catch (const std::bad_alloc&) {
    std::int64_t largest = 0;
    for (const std::string& column : file ? file->columns() : std::vector<std::string>())
      for (const auto& [rows, bytes] : file->groups(column)) largest = std::max(largest, bytes);
    context.fail("there is not enough memory to read it: a column of its largest row group has " +
                     bytes_text(largest) +
                     ". Write it with smaller row groups, such as of 100 rows.",
                 ErrorCode::kModuleOutOfMemory);
  } catch (const std::runtime_error& fault) {
    context.fail("it is not a Parquet file that can be read: " +
                 first_line(fault.what()).substr(0, 300) + ". Write it again.");
  }
}

// The names of ClassLabel in the metadata that Hugging Face's datasets write; empty if there are
// none: {"info": {"features": {"label": {"names": ["cat", …], "_type": "ClassLabel"}}}}.
std::vector<std::string> class_label_names(const std::string& metadata, const std::string& column) {
  if (metadata.empty()) return {};
  nlohmann::json found;
  try {
    found = parse_json(metadata, RepeatedKeys::kRefused);
  } catch (const JsonFault& fault) {
    throw RowFault(std::string("has metadata of Hugging Face that ") + fault.what());
  }
  for (const char* key : {"info", "features", column.c_str(), "feature", "names"}) {
    if (found.contains(key))
      found = nlohmann::json(found[key]);         // a copy, since it is inside what it replaces
    else if (std::string_view(key) != "feature")  // only lists of labels have it
      return {};
  }
  if (!found.is_array() || found.empty()) return {};
  if (found.size() > kMaxClasses) throw RowFault("is of more than 100000 classes");
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const nlohmann::json& name : found) {
    names.push_back(name.is_string() ? name.get<std::string>() : "");
    if (names.back().empty() || !is_clean(names.back()) || !known.insert(names.back()).second)
      throw RowFault(
          "has a ClassLabel whose names are not all different texts without control characters");
  }
  return names;
}

// The struct with the images themselves, without ".bytes": --columns path=NAME, or the only one;
// empty: there is none.
std::string struct_of_images(const std::vector<std::string>& columns,
                             const DatasetContext& context) {
  std::vector<std::string> found;
  for (const std::string& column : columns)
    if (column.ends_with(kBytes)) found.push_back(column.substr(0, column.size() - kBytes.size()));
  for (const auto& [key, name] : context.records.columns)
    if (key == "path") return std::ranges::count(found, name) > 0 ? name : std::string();
  if (found.size() > 1)
    throw RowFault("has several columns with images, " + quoted_names(found, kMostNamed) +
                   ": choose one with --columns path=NAME");
  return found.empty() ? std::string() : found.front();
}

class Rows {
 public:
  // The rows of `file` are of the set `set`; empty: of the one that their column says. `spool` gets
  // the images.
  Rows(ParquetReader& file, ListRows& rows, std::string_view set, std::optional<Spool>& spool)
      : file_(file), rows_(rows), set_(set), spool_(spool) {
    rows.unit = "row";
    rows.has_marks = true;
    const std::vector<std::string> all = file.columns();
    images_ = struct_of_images(all, rows.context);
    if (!images_.empty()) rows.columns.field_of(images_);
    // Where no column has labels, all others may say of a class whether an image has it.
    const bool have_flags =
        rows.wants_flags() && std::ranges::none_of(all, [&](const std::string& one) {
          return rows.columns.field_of(one) == ListField::kLabel;
        });
    for (const std::string& column : all) {
      // A struct's path is used where it has no bytes.
      const std::optional<ListField> field = !images_.empty() && column == images_ + ".path"
                                                 ? ListField::kPath
                                                 : rows.columns.field_of(column);
      const bool may_be_flag =
          have_flags && column.find('.') == column.npos && std::ranges::count(all, column) == 1;
      if (!field && (OtherColumns::has_usual_name(column) || may_be_flag))
        unread_.push_back(column);
      if (!field || (*field == ListField::kPath && !column.starts_with(images_))) continue;
      if (std::ranges::count(fields_, *field) > 0)
        throw RowFault("has the column '" + column +
                       "' and another that may mean the same: choose one with --columns");
      fields_.push_back(*field);
      wanted_.push_back(column);
    }
    if (std::ranges::count(fields_, ListField::kPath) == 0 && images_.empty())
      throw RowFault("has the columns " + quoted_names(all, kMostNamed) +
                     ", none of which is of images: name it with --columns path=NAME");
    if (const auto label = std::ranges::find(fields_, ListField::kLabel); label != fields_.end()) {
      const std::string& name = wanted_[static_cast<std::size_t>(label - fields_.begin())];
      for (const std::string& column : all) rows.columns.refuse_second_label(name, column);
      if (std::vector<std::string> names = class_label_names(file.metadata("huggingface"), name);
          !names.empty())
        rows.name_classes(std::move(names), "ClassLabel in the file");
    }
    wanted_.insert(wanted_.end(), unread_.begin(), unread_.end());
    if (!images_.empty()) wanted_.push_back(images_ + std::string(kBytes));
  }

  // Returns the struct with images; empty: there are paths.
  const std::string& read() {
    for (std::size_t i = 0; i < fields_.size() + unread_.size(); ++i)
      for (const auto& [rows, bytes] : file_.groups(wanted_[i]))
        if (bytes > std::min(kMaxTextBytes, (1 << 20) + rows * 4096))
          throw RowFault("has " + bytes_text(bytes) + " in the column '" + wanted_[i] + "' of " +
                         plural(rows, "row", "rows") + ", too many for paths and labels");
    file_.read(wanted_, [&](const Texts& texts) { add(texts, ++rows_.num_read); });
    return images_;
  }

 private:
  using Texts = std::vector<std::optional<std::string>>;

  void add(const Texts& texts, int number) {
    ListedRow row{.line = number};
    row[ListField::kSet] = set_;
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (!texts[i]) continue;
      row[fields_[i]] = *texts[i];
      row.has_label = row.has_label || fields_[i] == ListField::kLabel;
    }
    for (std::size_t i = 0; i < unread_.size(); ++i)
      if (const std::optional<std::string>& text = texts[fields_.size() + i])
        rows_.other_columns.see(unread_[i], *text);
    if (images_.empty() || !texts.back()) return rows_.add(row);
    if (!spool_) spool_.emplace();
    const std::string& bytes = *texts.back();
    const ArchiveMember member{
        .offset = spool_->size(), .stored_size = bytes.size(), .size = bytes.size()};
    spool_->append(bytes);
    row[ListField::kPath] = extension_of(image_kind(bytes));
    row.member = &member;
    rows_.add(row);
  }

  ParquetReader& file_;
  ListRows& rows_;
  std::string images_;
  std::vector<ListField> fields_;    // of the columns that are read; without one for images
  std::vector<std::string> unread_;  // columns that may name sets
  std::vector<std::string> wanted_;
  const std::string_view set_;
  std::optional<Spool>& spool_;
};

}  // namespace

void read_parquet_list(ListRows& rows) {
  const std::vector<std::string> files = files_of(rows.context);
  std::set<std::string> words;
  for (const std::string& file : files) words.insert(word_of_name(file, kSetWords).word);
  std::optional<Spool> spool;
  std::string images;
  for (const std::string& file : files)
    with_file(rows.context, file, [&](ParquetReader& reader) {
      const std::string word = words.size() > 1 ? word_of_name(file, kSetWords).word : "";
      images = Rows(reader, rows, word, spool).read() + std::string(kBytes);
    });
  if (spool) rows.set.archives.push_back({images, spool->take()});
}

OpenFile images_in_parquet(const DatasetContext& context, const std::string& column) {
  Spool spool;
  for (const std::string& name : files_of(context))
    with_file(context, name, [&](ParquetReader& file) {
      file.read({column}, [&](const std::vector<std::optional<std::string>>& texts) {
        if (texts[0]) spool.append(*texts[0]);
      });
    });
  return spool.take();
}

const ArrowModule& arrow_module(const std::string& remedy) {
  static const ArrowModule& module = [&]() -> const ArrowModule& {
    // Its own allocator reserves 1 GiB of addresses at once, which a limit may not leave for the
    // rest.
    ::setenv("ARROW_DEFAULT_MEMORY_POOL", "system", /*replace=*/0);
    return open_module<ArrowModule>("libkiln_arrow.so", kArrowModuleSymbol, kArrowModuleVersion,
                                    remedy);
  }();
  return module;
}

}  // namespace kiln
