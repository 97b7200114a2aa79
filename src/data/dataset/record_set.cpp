#include <map>
#include <utility>

#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/archive_files.h"
#include "data/dataset/folder_entries.h"
#include "data/dataset/readers.h"

namespace kiln {
namespace {

// Collects the labels of all files in set.found. Returns the index of each, by file and by its
// index in that file.
std::vector<std::vector<int>> collect_labels(const DatasetContext& context,
                                             const std::vector<std::string>& files,
                                             const std::vector<RecordListing>& listings,
                                             FoundLabels& found) {
  std::map<RawLabel, int> known;
  std::vector<std::vector<int>> indices(listings.size());
  for (std::size_t f = 0; f < listings.size(); ++f)
    for (const RawLabel& label : listings[f].labels) {
      if (label.number < 0 && label.text.empty()) {  // a negative number
        indices[f].push_back(-1);
        continue;
      }
      const auto [place, is_new] = known.emplace(label, static_cast<int>(known.size()));
      indices[f].push_back(place->second);
      if (!is_new) continue;
      found.labels.push_back(label);
      found.places.push_back(quoted_path(path_of_archive(context, files[f]).filename()));
    }
  return indices;
}

// `indices` are those of collect_labels(), which become the labels of the samples.
void add_images(const std::vector<std::string>& files, const std::vector<std::vector<int>>& indices,
                std::vector<RecordListing>& listings, Dataset& set) {
  std::size_t num_several = 0, num_headers = 0;
  for (std::size_t f = 0; f < files.size(); ++f) {
    RecordListing& listing = listings[f];
    num_several += listing.num_several;
    num_headers += listing.num_headers;
    const std::string folder = files.size() == 1 ? "" : files[f] + "/";
    for (std::size_t i = 0; i < listing.images.size(); ++i) {
      ArchiveMember member = *listing.images.member(i);
      member.archive = static_cast<std::uint16_t>(f);
      const int own = listing.images.label(i);
      int label = own < 0 ? -1 : indices[f][static_cast<std::size_t>(own)];
      // Unlabeled images are left out, so a bad image is given a class in order to be counted. A
      // record without a label may be damaged, too; its checksum has not been verified yet.
      if (!set.found.labels.empty() && label < 0 &&
          (listing.damaged[i] || is_damaged_record(listing.file, member)))
        label = 0;
      set.samples.push_back({.file_name = folder + std::string(listing.images.file_name(i)),
                             .label = label,
                             .id = static_cast<std::int64_t>(set.samples.size()),
                             .size = {}},
                            member);
    }
    set.archives.push_back({files[f], std::move(listing.file)});
    if (!listing.note.empty()) set.notes.push_back(std::move(listing.note));
    listing = {};
  }
  if (num_several > 0) {
    set.notes.push_back("records with several labels: " + std::to_string(num_several) +
                        "; the first label is used as the class");
  }
  if (num_headers > 0) {
    set.notes.push_back(
        "records of several numbers without an image: " + std::to_string(num_headers) +
        "; they are headers, and left out with their numbers");
  }
}

}  // namespace

Dataset read_records(const DatasetContext& context, const std::vector<std::string>& files) {
  if (files.size() > kMaxArchives)
    context.fail("it contains more than 65535 record files. Pack the images into larger ones.");
  for (const std::string& file : files)
    if (!is_utf8(file))
      context.fail("the name of the file '" + printable(file) + "' is not UTF-8. Rename it.");
  allow_open_files(files.size());
  Dataset set;
  set.kind = Dataset::Kind::kRecords;
  set.root = context.root;
  set.stamps.push_back(context.stamp(""));
  for (const std::string& file : files)
    if (!file.empty()) set.stamps.push_back(context.stamp(file));
  require_one_set(context, files, set);
  std::vector<RecordListing> listings(files.size());
  in_parallel(files.size(), kScanThreads,
              [&](std::size_t i) { listings[i] = list_records(context, files[i]); });
  take_given_names(context, set);
  const auto indices = collect_labels(context, files, listings, set.found);
  add_images(files, indices, listings, set);
  if (!set.found.labels.empty()) settle_labels(set, context.records.first_label);
  take_source(context, set);
  set.schema_json = schema_text(set.classes);
  set.samples_json = samples_text(set);
  return set;
}

}  // namespace kiln
