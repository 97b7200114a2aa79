// The results of `kiln audit` for the images of a dataset. Plain values, for the files and the
// page. Classes are given by name, so that the record is self-contained.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "record/run_record.h"
#include "record/run_summary.h"

namespace kiln {

// An image in one of the audit's lists.
struct AuditedImage {
  std::string file;   // as named in the dataset
  std::string label;  // the given one
  Thumbnail thumbnail;
  bool validates = false;  // in the validation dataset, whose labels are not judged
  bool is_right = false;   // its label was confirmed: nothing is left to decide
};

// An image whose label is probably wrong.
struct DoubtfulLabel {
  AuditedImage image;
  std::string suggested;       // the most probable class, to models that have not seen the image
  double confidence = 0;       // its probability
  double self_confidence = 0;  // that of the given label
};

struct CopiedImage {
  AuditedImage first, other;
  bool is_exact = false;  // identical bytes; otherwise it looks the same
};

// An image that stands out.
struct OddImage {
  AuditedImage image;
  std::string kind;    // "dark", "blurred", …
  std::string reason;  // a clause with numbers
  double extent = 0;   // how far it exceeds the limit
};

// Statistics on the labels of one class.
struct AuditedClass {
  std::string name;
  std::int64_t images = 0;
  std::int64_t wrong = 0;         // how many of them probably belong to another class, or not to it
  std::string belongs_to;         // the class that most of those probably belong to; empty: none
  std::int64_t missing = 0;       // images of this class that probably have another label
  std::int64_t num_doubtful = 0;  // entries in the list of doubtful labels
};

struct AuditRecord {
  double time = 0;  // Unix seconds
  std::string data_path;
  std::string valid_data_path;  // also searched for copies; empty: none
  std::string backbone;         // the network, and the source of its weights
  TextPairs options, versions;
  std::string device, precision;
  std::int64_t num_images = 0;  // labeled images in the dataset
  std::int64_t num_bad = 0;     // of these
  // Of several labels an image, num_judged and num_agreed count labels: those that are given or
  // predicted, and both.
  bool has_several_labels = false;
  std::int64_t num_decided = 0;  // images that --labels decided on, also those it left out
  std::int64_t num_judged = 0;   // images that are not bad
  std::int64_t num_seen = 0;     // images that are not bad and that the backbone was trained on
  int num_folds = 0;
  // Images for which models that have not seen them predict the given label.
  std::int64_t num_agreed = 0;
  std::vector<AuditedClass> classes;     // by class id
  std::vector<DoubtfulLabel> doubtful;   // most doubtful first
  std::vector<CopiedImage> copies;       // those with different classes first
  std::vector<OddImage> flawed;          // dark, bright, nearly empty, blurred, odd
  std::vector<Shortcut> shortcuts;       // that telling() leaves; none with several labels an image
  std::vector<ImageFaultRecord> faults;  // bad and damaged images
  bool has_measures = true;              // by which images are found to be flawed
};

inline bool can_judge(const AuditRecord& record) {
  return can_judge_labels(record.num_agreed, record.num_judged);
}

// The number of copies between the training and the validation dataset.
std::size_t num_copies_across_sets(const AuditRecord& record);

inline constexpr const char* kAuditFileName = "audit.json";

std::string audit_json(const AuditRecord& record);  // numbers and lists, without thumbnails

// Columns path,label,suggested,confidence,reason: a file for people to edit, which `--labels`
// reads. One row per image: first doubtful labels; then copies with different classes, and
// flawed images that are not listed yet, for which `suggested` and `confidence` are empty. Several
// reasons are joined by "; ". Without images whose label was confirmed.
std::string doubtful_csv(const AuditRecord& record);

// Whether a doubtful.csv was edited after the audit that also wrote `audit_json`, if that is JSON.
bool was_edited(std::string_view doubtful_csv, std::string_view audit_json);

// Columns path,other,kind,same_class, and set,other_set if there is a validation set. kind is
// "exact" or "near", same_class "True" or "False".
std::string duplicates_csv(const AuditRecord& record);

}  // namespace kiln
