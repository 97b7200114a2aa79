#include "tools/audit/audit_record.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "predict/thumbnail.h"

namespace kiln {
namespace {

class Recorder {
 public:
  Recorder(const AuditFindings& findings, AuditRecord& record)
      : set_(findings.set),
        findings_(findings),
        record_(record),
        noise_(estimate_label_noise(findings.judged)),
        is_doubtful_(set_.samples.size()) {}

  void add_labels() {
    const JudgedLabels& judged = findings_.judged;
    record_.num_images = static_cast<std::int64_t>(set_.samples.size());
    record_.num_judged = static_cast<std::int64_t>(judged.labels.size());
    record_.num_agreed = judged.num_agreed();
    if (!can_judge(record_)) return;
    for (const std::uint32_t row : probably_wrong(judged, noise_)) {
      const std::uint32_t image = findings_.images[row];
      const std::int32_t best = judged.best(row);
      is_doubtful_[image] = true;
      record_.doubtful.push_back(
          {audited(image, record_.doubtful.size()), class_of(best),
           static_cast<double>(judged.row(row)[static_cast<std::size_t>(best)]),
           static_cast<double>(judged.self_confidence(row))});
    }
  }

  void add_classes() {
    for (std::size_t c = 0; c < set_.classes.size(); ++c) {
      AuditedClass& audited = record_.classes.emplace_back(
          AuditedClass{set_.classes[c], noise_.images(c), 0, "", 0, 0});
      if (!can_judge(record_)) continue;
      audited.wrong = noise_.wrong(c);
      audited.missing = noise_.missing(c);
      std::int64_t most = 0;
      for (std::size_t truth = 0; truth < set_.classes.size(); ++truth)
        if (truth != c && noise_.at(c, truth) > most) {
          most = noise_.at(c, truth);
          audited.belongs_to = set_.classes[truth];
        }
    }
    for (std::size_t i = 0; i < is_doubtful_.size(); ++i)
      if (is_doubtful_[i])
        ++record_.classes[static_cast<std::size_t>(set_.samples.label(i))].num_doubtful;
  }

  void add_copies() {
    for (const ImageCopy& copy : findings_.copies) {
      const std::size_t place = record_.copies.size();
      record_.copies.push_back(
          {audited(copy.first, place), audited(copy.other, place), copy.is_exact});
    }
  }

  // Skips images with doubtful labels: it is no news that they are unlike others with that label.
  void add_outliers() {
    for (const Outlier& outlier : find_outliers(findings_.features)) {
      const std::uint32_t image = findings_.images[outlier.image];
      if (is_doubtful_[image]) continue;
      record_.outliers.push_back(
          {audited(image, record_.outliers.size()), "outlier",
           formatted("the nearest images of its class are %.1f times as far away as usual",
                     outlier.distance / std::max(outlier.usual, 1e-6)),
           outlier.extent});
    }
  }

  void add_flawed() {
    const std::vector<ImageMeasures>& measures = findings_.scanned.measures;
    const UsualImage usual = usual_image(measures);
    std::vector<std::pair<std::uint32_t, FoundFlaw>> flawed;
    for (std::uint32_t i = 0; i < measures.size(); ++i)
      for (FoundFlaw& flaw : flaws_of(measures[i], usual)) flawed.emplace_back(i, std::move(flaw));
    std::stable_sort(flawed.begin(), flawed.end(), [](const auto& a, const auto& b) {
      return std::tuple(a.second.flaw, -a.second.extent) <
             std::tuple(b.second.flaw, -b.second.extent);
    });
    for (const auto& [image, flaw] : flawed)
      record_.flawed.push_back(
          {audited(image, record_.flawed.size()), flaw_name(flaw.flaw), flaw.reason, flaw.extent});
  }

 private:
  std::string class_of(std::int32_t label) const {
    return set_.classes[static_cast<std::size_t>(label)];
  }

  // The image to show at `place` in its list.
  AuditedImage audited(std::uint32_t image, std::size_t place) const {
    const bool validates = image >= set_.samples.size();
    const Dataset& set = validates ? *findings_.valid : set_;
    const std::size_t i = validates ? image - set_.samples.size() : image;
    return {std::string(set.samples.file_name(i)),
            set.classes[static_cast<std::size_t>(set.samples.label(i))],
            place < record_.num_shown ? thumbnail_of(set, i, findings_.pixels) : Thumbnail(),
            validates};
  }

  const Dataset& set_;
  const AuditFindings& findings_;
  AuditRecord& record_;
  const LabelNoise noise_;
  std::vector<bool> is_doubtful_;  // by image
};

}  // namespace

void add_findings(const AuditFindings& findings, AuditRecord& record) {
  Recorder recorder(findings, record);
  recorder.add_labels();
  recorder.add_classes();
  recorder.add_copies();
  recorder.add_outliers();
  recorder.add_flawed();
}

}  // namespace kiln
