// Record files (TFRecord, RecordIO): where each image and its label lie.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "base/files.h"
#include "base/names.h"
#include "base/system.h"
#include "base/text.h"
#include "data/archive/record_reader.h"
#include "data/dataset/listing.h"
#include "data/image/image.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKindBytes = 64;  // enough to recognize an image format
constexpr std::uint64_t kMaxLabelRecordBytes = 1 << 20;
constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{1} << 30;
constexpr int kDamagedLabel = -2;  // of a bad image that says nothing about its class

// Whether the record has a wrong checksum or is too large for an image.
bool is_damaged_record(const OpenFile& file, const ArchiveMember& member) {
  if (member.packing != ArchiveMember::Packing::kTfRecord) return false;
  if (member.stored_size > kMaxRecordBytes) return true;  // too large for an image
  FileSource source(file, member.offset - kTfRecordHeaderBytes);
  Record record;
  return RecordReader(source, RecordFormat::kTfRecord).next(record) && !record.fault.empty();
}

class RecordWalk {
 public:
  // `starts`, if given, gets where the records of the file begin.
  RecordWalk(const RecordKeys& keys, Listing& listing, std::vector<std::uint64_t>* starts)
      : keys_(keys), listing_(listing), starts_(starts) {}

  RecordFormat walk() {
    if (window_.end() == 0) throw RecordFault("it is empty");
    const std::size_t first = std::min<std::uint64_t>(kTfRecordHeaderBytes, window_.end());
    const std::optional<RecordFormat> format = record_format(bytes_at(0, first));
    if (!format) throw RecordFault("it begins like neither TFRecord nor RecordIO");
    while (at_ < window_.end()) {
      if (starts_ != nullptr) starts_->push_back(at_);
      format == RecordFormat::kTfRecord ? visit_tfrecord() : visit_recordio();
    }
    if (num_headers_ > 0)
      listing_.set.notes.push_back(
          "records of several numbers without an image: " + std::to_string(num_headers_) +
          "; they are headers, and left out with their numbers");
    return *format;
  }

 private:
  // Throws RecordFault if they are not all there.
  std::string_view bytes_at(std::uint64_t offset, std::size_t count) {
    const std::string_view found = window_.bytes(offset, count);
    require(found.size() == count);
    return found;
  }

  RecordView view_at(std::uint64_t begin, std::uint64_t size) {
    return {size, [this, begin](std::uint64_t offset, std::size_t count) {
              return bytes_at(begin + offset, count);
            }};
  }

  void require(bool is_whole) const {
    if (!is_whole)
      throw RecordFault("it ends after " + std::to_string(window_.end()) +
                        " bytes, in the middle of a record");
  }

  // The offset after `size` bytes from `begin`. Throws RecordFault unless the file has them.
  std::uint64_t end_of(std::uint64_t begin, std::uint64_t size) const {
    require(begin <= window_.end() && size <= window_.end() - begin);
    return begin + size;
  }

  void visit_tfrecord() {
    const std::uint64_t size = tfrecord_length(bytes_at(at_, kTfRecordHeaderBytes));
    const std::uint64_t data = at_ + kTfRecordHeaderBytes;
    at_ = end_of(end_of(data, size), kTfRecordTrailerBytes);
    ArchiveMember member{
        .offset = data, .stored_size = size, .packing = ArchiveMember::Packing::kTfRecord};
    const RecordView view = view_at(data, size);
    read_contents(member, view, [&] { return parse_example(view, keys_); });
  }

  void visit_recordio() {
    const RecordPart part = first_part();
    if (part.kind == PartKind::kWhole) {
      const std::uint64_t data = at_ + kRecordIoHeaderBytes;
      at_ = end_of(data, part.padded_size());
      ArchiveMember member{.offset = data, .stored_size = part.size};
      return read_recordio(member, view_at(data, part.size));
    }
    FileSource source(file_, at_);
    RecordReader reader(source, RecordFormat::kRecordIo);
    Record record;
    reader.next(record);
    if (!record.fault.empty()) throw RecordFault("a record: " + record.fault);
    ArchiveMember member{
        .offset = at_, .stored_size = reader.offset(), .packing = ArchiveMember::Packing::kParts};
    at_ += reader.offset();
    read_recordio(member, view_of(record.bytes));
  }

  RecordPart first_part() {
    return recordio_part(bytes_at(at_, kRecordIoHeaderBytes), /*is_inside=*/false);
  }

  static bool begins_as_image(const RecordView& data) {
    return is_bare_image(data.bytes(0, std::min<std::uint64_t>(data.size, kKindBytes)));
  }

  void read_recordio(ArchiveMember& member, const RecordView& view) {
    read_contents(member, view, [&] {
      if (!begins_as_image(view)) return parse_recordio_image(view);
      RecordContents contents;
      contents.image_size = view.size;
      if (at_ == window_.end()) return contents;
      if (!begins_as_image(view_at(at_ + kRecordIoHeaderBytes, first_part().size)))
        read_manifest_label(contents);
      return contents;
    });
  }

  void read_manifest_label(RecordContents& contents) {
    if (starts_ != nullptr) starts_->push_back(at_);
    FileSource source(file_, at_);
    RecordReader reader(source, RecordFormat::kRecordIo, kMaxLabelRecordBytes);
    Record label;
    reader.next(label);
    at_ += reader.offset();
    if (!label.fault.empty()) throw RecordFault("its label cannot be read: " + label.fault);
    contents.class_text = manifest_label(label.bytes);
    contents.is_written = !contents.class_text.empty();
  }

  // Lists a record: as a bad image if it cannot be parsed and its checksum is wrong. Throws
  // RecordFault if it is right.
  template <typename Parse>
  void read_contents(ArchiveMember& member, const RecordView& view, Parse&& parse) {
    const std::size_t number = listing_.set.samples.size() + num_headers_;
    RecordContents contents;
    bool damaged = false;
    try {
      contents = parse();
      if (!is_clean(contents.class_text))
        throw RecordFault("the name of its class is not UTF-8, or has control characters");
      for (const std::int64_t label : contents.labels)
        if (label >= std::int64_t{kMaxClasses})
          throw RecordFault("its label is " + std::to_string(label) +
                            ", but at most 100000 classes are supported");
    } catch (const RecordFault& fault) {
      damaged = is_damaged_record(file_, member);
      if (!damaged)
        throw RecordFault("record " + std::to_string(number) +
                          " (counted from 0): " + fault.what());
      contents = {};
    }
    if (contents.is_header)
      ++num_headers_;
    else
      add(member, view, contents, damaged);
  }

  void add(ArchiveMember& member, const RecordView& view, const RecordContents& contents,
           bool damaged) {
    const std::size_t known = std::min<std::uint64_t>(contents.image_size, kKindBytes);
    const std::string_view kind = image_kind(view.bytes(contents.image_begin, known));
    member.size = contents.image_size;
    if (member.packing == ArchiveMember::Packing::kPlain) {
      member.offset += contents.image_begin;
      member.stored_size = member.size;
    } else {
      member.checksum = static_cast<std::uint32_t>(contents.image_begin);
    }
    const std::string name = formatted("%09zu", listing_.set.samples.size()) + extension_of(kind);
    listing_.set.samples.add(name, damaged ? kDamagedLabel : label_of(contents), &member);
    if (contents.has_several_labels()) listing_.left_out.add(LeftOut::Reason::kSeveralLabels, name);
  }

  int label_of(const RecordContents& contents) {
    RawLabel label;
    (contents.is_written ? label.text : label.name) = contents.class_text;
    if (!contents.labels.empty() && contents.labels[0] >= 0) {
      label.text = std::to_string(contents.labels[0]);
      label.is_number = true;
    }
    if (label == RawLabel{}) return -1;
    const auto [found, is_new] = ids_.emplace(label, static_cast<int>(ids_.size()));
    if (is_new) listing_.set.found.labels.push_back(label);
    return found->second;
  }

  const RecordKeys& keys_;
  Listing& listing_;
  std::vector<std::uint64_t>* starts_;
  const OpenFile& file_ = listing_.set.archives.front().file;
  FileWindow window_{file_};
  std::uint64_t at_ = 0;
  std::size_t num_headers_ = 0;  // RecordIO: records of several numbers without an image
  std::map<RawLabel, int> ids_;
};

// Returns the offsets in an .idx file of MXNet, sorted. Its lines are "KEY<tab>OFFSET".
std::vector<std::uint64_t> offsets_of_index(const std::string& text) {
  std::vector<std::uint64_t> offsets;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const auto offset = number_in<std::uint64_t>(line.substr(line.find('\t') + 1));
    if (!offset)
      throw RecordFault("line " + std::to_string(offsets.size() + 1) +
                        " is not a key and an offset");
    offsets.push_back(*offset);
  }
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

void compare_index(const DatasetContext& context, const fs::path& index,
                   const std::vector<std::uint64_t>& starts) {
  std::string fault;
  try {
    if (offsets_of_index(read_file(index, kMaxIndexBytes)) == starts) return;
    fault = "has other offsets than the " + std::to_string(starts.size()) +
            " records of its file: it belongs to a different file";
  } catch (const RecordFault& found) {
    fault = std::string("cannot be used: ") + found.what();
  } catch (const std::exception& found) {
    fault = std::string("cannot be read: ") + found.what();
  }
  context.fail("the index '" + index.string() + "' " + fault +
               ". Remove it, since it is optional, or restore the matching one.");
}

Listing list_record_file(const DatasetContext& context, const std::string& file) {
  OpenPacked open = open_packed(context, file, kRecordFileKind);
  Listing listing;
  listing.set.archives.push_back({file, std::move(open.file)});
  const fs::path index = path_of_archive(context, file).replace_extension(".idx");
  const bool has_index = !open.is_unpacked && is_there(index);
  std::vector<std::uint64_t> starts;
  const RecordFormat format = with_archive_named(context, file, kRecordFileKind, [&] {
    return RecordWalk(context.records.keys, listing, has_index ? &starts : nullptr).walk();
  });
  // Of TFRecord it is another program's.
  if (has_index && format == RecordFormat::kRecordIo) compare_index(context, index, starts);
  if (open.is_unpacked)
    listing.set.notes.push_back(unpacked_note(context, file, listing.set.archives.front().file) +
                                ")");
  return listing;
}

// Unlabeled images are left out, so a bad image is given a class in order to be counted. A record
// without a label may be damaged, too: its checksum has not been verified yet.
void label_damaged(Dataset& set) {
  const bool has_labels = !set.found.labels.empty();
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const int label = set.samples.label(i);
    if (label >= 0) continue;
    const ArchiveMember& member = *set.samples.member(i);
    const bool counts =
        has_labels &&
        (label == kDamagedLabel || is_damaged_record(set.archives[member.archive].file, member));
    set.samples.set_label(i, counts ? 0 : -1);
  }
}

}  // namespace

std::string extension_of(std::string_view kind) {
  static constexpr std::pair<std::string_view, const char*> kExtensions[] = {
      {"PNG", ".png"},  {"BMP", ".bmp"},   {"PNM", ".ppm"},
      {"TIFF", ".tif"}, {"WebP", ".webp"}, {"HEIC", ".heic"}};
  for (const auto& [known, extension] : kExtensions)
    if (kind == known) return extension;
  return ".jpg";
}

Listing list_records(const DatasetContext& context, const std::vector<std::string>& files) {
  const std::vector<std::string> notes = check_packed(context, Dataset::Kind::kRecords, files);
  std::vector<Listing> listings(files.size());
  in_parallel(files.size(), kScanThreads,
              [&](std::size_t i) { listings[i] = list_record_file(context, files[i]); });
  FoundLabels given;
  read_given_names(context, given);
  Listing all = merge_listings(context, files, std::move(listings), std::move(given));
  all.set.kind = Dataset::Kind::kRecords;
  all.set.notes.insert(all.set.notes.begin(), notes.begin(), notes.end());
  // Of several labels, one cannot tell what they are; where each image has one class, the first is
  // it.
  const FewNames several = all.left_out.of(LeftOut::Reason::kSeveralLabels);
  if (context.records.task == TaskKind::kMultiLabel && several.count() > 0)
    context.fail(plural(static_cast<long long>(several.count()), "record has", "records have") +
                 " several labels, which may be classes or a 0 or 1 for each: " + several.quoted() +
                 ". Give a list of the images that ends in .csv, .jsonl or .parquet, for --task "
                 "multi-label.");
  label_damaged(all.set);
  read_source(context, all.set);
  return all;
}

}  // namespace kiln
