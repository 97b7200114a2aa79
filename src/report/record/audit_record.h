// What `kiln audit` finds out about the images of a data set. Plain values, for the files and the
// page; by class name, so that they stand for themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/training_record.h"
#include "report/record/run_record.h"

namespace kiln {

// An image as a list of the audit names it.
struct AuditedImage {
  std::string file;   // as named in the data set
  std::string label;  // the given one
  Thumbnail thumbnail;
  bool validates = false;  // of the second data set, whose labels are not judged
};

// An image whose label is probably wrong.
struct DoubtfulLabel {
  AuditedImage image;
  std::string suggested;       // the most probable class, by models that have not seen the image
  double confidence = 0;       // its probability
  double self_confidence = 0;  // that of the given label
};

struct CopiedImage {
  AuditedImage first, other;
  bool is_exact = false;  // byte for byte; else it looks the same
};

// An image that stands out by what it shows.
struct OddImage {
  AuditedImage image;
  std::string kind;    // "outlier", "dark", "blurred", …
  std::string reason;  // a clause with numbers
  double extent = 0;   // how far beyond the limit
};

// The labels of a class.
struct AuditedClass {
  std::string name;
  std::int64_t images = 0;
  std::int64_t wrong = 0;         // of them that probably belong to another class
  std::string belongs_to;         // the class that most of those belong to; empty: none
  std::int64_t missing = 0;       // images of it that probably have another label
  std::int64_t num_doubtful = 0;  // in the list
};

struct AuditRecord {
  double time = 0;  // Unix seconds
  std::string data_path;
  std::string valid_data_path;  // of which copies are listed; empty: none
  std::string backbone;         // the network, and where its weights are from
  TextPairs options, versions;
  std::string device, precision;
  std::int64_t num_images = 0;  // listed, with a label
  std::int64_t num_judged = 0;  // without those that are bad
  int num_folds = 0;
  // How often models that have not seen an image name the given label.
  std::int64_t num_agreed = 0;
  std::vector<AuditedClass> classes;     // by class id
  std::vector<DoubtfulLabel> doubtful;   // most doubtful first
  std::vector<CopiedImage> copies;       // of two classes first
  std::vector<OddImage> outliers;        // the farthest first
  std::vector<OddImage> flawed;          // dark, bright, nearly empty, blurred, odd
  std::vector<ImageFaultRecord> faults;  // of bad and damaged images
  std::size_t num_shown = 200;           // of each list, on the page
};

// How many labels are probably wrong, by the estimate of confident learning.
std::int64_t num_probably_wrong(const AuditRecord& record);

// Validation images that repeat another one, or the other way around.
std::size_t num_copies_across_sets(const AuditRecord& record);

}  // namespace kiln
