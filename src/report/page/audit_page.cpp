#include <algorithm>
#include <functional>

#include "base/text.h"
#include "report/page/html.h"
#include "report/page/page.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxRows = 1000, kMaxFaults = 200;
constexpr double kStrong = 0.8;
constexpr std::int64_t kFewImages = 300;

std::string file_html(const AuditedImage& image) {
  return name_html(image.file) + (image.validates ? " (validation)" : "");
}

std::string picture(const Thumbnail& thumbnail, const std::string& alt) {
  return image_html(alt, base64(thumbnail.jpeg),
                    std::max(thumbnail.height, thumbnail.width) <= kSmallImage);
}

// Returns a sentence with a leading space; empty if all are shown. `files`: names the file that
// lists all.
std::string how_many_shown(std::size_t all, std::size_t shown, const char* files) {
  if (all <= shown) return "";
  return " Showing " + grouped(shown) + " of " + grouped(all) + "; all are in " + files + ".";
}

double agreed_share(const AuditRecord& record) {
  return record.num_judged > 0 ? share_of(record.num_agreed, record.num_judged) : 0;
}

// "1,000 images"
std::string judged_text(const AuditRecord& record) {
  return record.has_several_labels
             ? plural(record.num_judged, "label given or predicted", "labels given or predicted")
             : plural(record.num_judged, "image", "images");
}

std::size_t copies_between_classes(const AuditRecord& record) {
  return static_cast<std::size_t>(std::ranges::count_if(
      record.copies, [](auto& copy) { return copy.first.label != copy.other.label; }));
}

std::string tiles_of(const AuditRecord& record) {
  const auto counted = [](const char* name, const char* id, std::size_t count,
                          const std::string& more) {
    return tile(name, figure(id, static_cast<double>(count), grouped(count)), more);
  };
  return (can_judge(record) ? counted("Doubtful labels", "doubtful", record.doubtful.size(),
                                      "the most doubtful first")
                            : std::string()) +
         counted("Copies", "copies", record.copies.size(),
                 grouped(copies_between_classes(record)) + " of them with another label" +
                     (record.valid_data_path.empty()
                          ? ""
                          : ", " + grouped(num_copies_across_sets(record)) + " across the sets")) +
         counted("Flawed", "flawed", record.flawed.size(), "dark, bright, blurred, empty, odd") +
         accuracy_tile("agreed", "Agreement with the labels", agreed_share(record),
                       out_of_fold_interval(record.num_agreed, record.num_judged));
}

std::string what_to_do(const AuditRecord& record) {
  std::string items;
  const auto add = [&](const char* text) { items += element("li", prose(text)); };
  if (!record.doubtful.empty()) {
    add("Open `doubtful.csv`, next to this page: its rows are in the order of the pictures below.");
    add("If a `label` is wrong, change it. Delete the rows that are right. `suggested` is a guess, "
        "so look at the picture first.");
    add(record.has_several_labels
            ? "Correct the list that your labels are from in the same way, and train again."
            : "Train again with the corrected labels: `kiln train --labels doubtful.csv`, with the "
              "same data. The image files stay unchanged.");
  }
  if (record.copies.size() + record.flawed.size() > 0)
    add("Remove duplicates and empty images; `duplicates.csv` lists the duplicates.");
  return items.empty() ? "" : element("ol", items);
}

// The first `most` of `entries` as pictures below `lead`; empty if there are none. `files`: names
// the file that lists all.
template <typename Entry>
std::string pictures_section(const char* id, const char* heading, const std::string& lead,
                             const std::vector<Entry>& entries, std::size_t most, const char* files,
                             std::string (*picture_of)(const Entry&)) {
  const std::size_t shown = std::min(entries.size(), most);
  if (shown == 0) return "";
  std::string html;
  for (std::size_t i = 0; i < shown; ++i) html += picture_of(entries[i]);
  return section(id, heading,
                 element("p", lead + how_many_shown(entries.size(), shown, files)) + gallery(html));
}

// With several labels an image, there may be none.
std::string label_or_none(const std::string& label) {
  return label.empty() ? "no class" : name_html(label);
}

std::string doubtful_picture(const DoubtfulLabel& doubtful) {
  const AuditedImage& image = doubtful.image;
  return captioned(picture(image.thumbnail, image.label + ", perhaps " + doubtful.suggested),
                   caption_line("guess", label_or_none(doubtful.suggested) + "? " +
                                             percent(doubtful.confidence)) +
                       caption_line("truth", "labeled " + label_or_none(image.label) + ", " +
                                                 percent(doubtful.self_confidence)) +
                       caption_line("file", name_html(image.file)));
}

std::string copy_picture(const CopiedImage& copy) {
  const bool same = copy.first.label == copy.other.label;
  return captioned(
      element("div class=\"pair\"", picture(copy.first.thumbnail, copy.first.file) +
                                        picture(copy.other.thumbnail, copy.other.file)),
      caption_line("guess", std::string(copy.is_exact ? "same file" : "same picture") +
                                (same ? "" : ", two labels")) +
          caption_line("truth", name_html(copy.first.label) +
                                    (same ? "" : " and " + name_html(copy.other.label))) +
          caption_line("file", file_html(copy.first)) +
          caption_line("file", file_html(copy.other)));
}

std::string odd_picture(const OddImage& odd) {
  return captioned(
      picture(odd.image.thumbnail, odd.kind),
      caption_line("guess", escaped(odd.kind)) + caption_line("truth", name_html(odd.image.label)) +
          element("span", escaped(odd.reason)) + caption_line("file", name_html(odd.image.file)));
}

std::string noise_section(const AuditRecord& record) {
  if (!can_judge(record) || record.num_seen > 0) return "";
  std::vector<AuditedClass> classes = record.classes;
  const auto share = [](const AuditedClass& audited) {
    return audited.images > 0 ? share_of(audited.wrong, audited.images) : 0;
  };
  std::ranges::stable_sort(classes, std::ranges::greater{}, share);
  std::vector<Cells> rows;
  for (const AuditedClass& audited : classes) {
    if (rows.size() == kMaxRows) break;
    rows.push_back({name_html(audited.name), grouped(audited.images), grouped(audited.wrong),
                    percent(share(audited)), name_html(audited.belongs_to),
                    grouped(audited.missing), grouped(audited.num_doubtful)});
  }
  return section(
      "noise", "Doubted labels by class",
      element("p",
              "Estimates: images of the class whose label the models doubt, the class that they "
              "would give most of them, and images of other classes that they would give this one. "
              "Images that are hard to judge count, too: too many rather than too few.") +
          table("Classes, most doubted labels first",
                {text_column("class"), "images", "doubted", "share", text_column("mostly"),
                 "missing", "in the list"},
                rows));
}

std::string faults_section(const AuditRecord& record) {
  std::string items;
  for (std::size_t i = 0; i < std::min(record.faults.size(), kMaxFaults); ++i)
    items += fault_item(record.faults[i]);
  if (items.empty()) return "";
  return section("faults", "Bad and damaged images",
                 element("p", "Bad images are in no other list." +
                                  how_many_shown(record.faults.size(), kMaxFaults, "audit.json")) +
                     element("ul", items));
}

}  // namespace

Finding audit_verdict(const AuditRecord& record) {
  if (!can_judge(record))
    return {Judged::kWarning, "These weights cannot judge your labels (right on " +
                                  percent(agreed_share(record)) +
                                  "). Use weights trained on more similar images."};
  if (record.doubtful.empty())
    return {record.num_seen > 0 ? Judged::kNote : Judged::kGood,
            "No label of " + judged_text(record) + " looks wrong to these models."};
  const auto num_doubtful = static_cast<std::int64_t>(record.doubtful.size());
  return {Judged::kNote, "These models doubt " + grouped(num_doubtful) + " of " +
                             plural(record.num_judged, "label", "labels") + " (" +
                             percent(share_of(num_doubtful, record.num_judged)) +
                             "). The first ones in the list are the likeliest to be wrong; most of "
                             "the others may be right, and hard to judge."};
}

std::vector<Finding> audit_findings(const AuditRecord& record) {
  std::vector<Finding> findings;
  const auto add = [&](Judged judged, const std::string& text) {
    findings.push_back({judged, text});
  };
  const double agreed = agreed_share(record);
  const std::string judged = judged_text(record);
  if (record.num_seen > 0)
    add(Judged::kWarning, "The network itself was trained on " + grouped(record.num_seen) + " of " +
                              plural(record.num_images - record.num_bad, "image", "images") +
                              ": it knows their labels, so its doubts say little about them. For "
                              "a fair judgment use weights that were trained on other images.");
  const std::string lead =
      "Last layers fitted without the image agree with " +
      (record.has_several_labels ? percent(agreed) + " of "
                                 : "its label for " + percent(agreed) + " of ") +
      judged + ". ";
  if (!can_judge(record))
    add(Judged::kWarning, lead +
                              "That is too seldom to doubt any label: the lists have copies and "
                              "flaws only.");
  else if (agreed < kStrong || record.num_seen > 0)
    add(Judged::kNote, lead +
                           "Expect some correct labels in the list: those images are hard for the "
                           "models, not wrong.");
  else
    add(Judged::kGood, lead + "The first labels in the list are probably wrong.");
  if (const auto count = static_cast<std::int64_t>(copies_between_classes(record)); count > 0)
    add(Judged::kWarning, plural(count, "copy has", "copies have") +
                              " a different label than the original: one of the two is wrong, "
                              "whatever the models say.");
  if (const auto count = static_cast<std::int64_t>(num_copies_across_sets(record)); count > 0)
    add(Judged::kWarning,
        plural(count, "copy of an image is", "copies of images are") +
            " on the other side of the split: the validation accuracy is too optimistic.");
  if (record.num_bad > 0)
    add(Judged::kWarning,
        plural(record.num_bad, "image", "images") + " could not be decoded or judged.");
  if (can_judge(record) && record.num_judged < kFewImages)
    add(Judged::kNote, "With " + judged +
                           " the number of wrong labels is a rough estimate; the ranking of the "
                           "images is more reliable.");
  std::stable_partition(findings.begin(), findings.end(),
                        [](const Finding& finding) { return finding.judged == Judged::kWarning; });
  return findings;
}

std::string audit_html(const AuditRecord& record) {
  const std::string title = "Which images deserve a look";
  const std::string facts = " · " + record.device + " · " + record.precision + " · " +
                            plural(record.num_images, "image", "images") + " in " +
                            shortened(record.data_path, 100) +
                            (record.valid_data_path.empty()
                                 ? ""
                                 : ", and copies in " + shortened(record.valid_data_path, 100)) +
                            " · " + std::to_string(record.num_folds) + " folds";
  const std::size_t most = record.num_shown;
  const std::string main =
      verdict_section("Which labels are doubtful?", audit_verdict(record),
                      "\n" + tiles_of(record)) +
      section("trust", "How sure is it?", findings_list(audit_findings(record))) +
      section("next", "What to do", what_to_do(record)) +
      pictures_section(
          "doubtful", "Labels that the models doubt",
          "Judged by a last layer fitted without the image. Above: the suggested label "
          "and its probability; below: the given label and its probability.",
          record.doubtful, most, "doubtful.csv", doubtful_picture) +
      pictures_section("copies", "Copies",
                       "Pairs of images that are identical byte for byte, or look the same at a "
                       "different size, format or quality. If their labels differ, one is wrong. "
                       "Duplicates on both sides of a split inflate the accuracy; `kiln train "
                       "--data-path` keeps them on one side.",
                       record.copies, most, "duplicates.csv", copy_picture) +
      pictures_section("flawed", "Dark, bright, blurred and nearly empty",
                       "Images that differ from the typical image of this dataset.", record.flawed,
                       most, "audit.json", odd_picture) +
      noise_section(record) + faults_section(record) +
      settings_section(record.options, record.versions);
  const std::string facts_line =
      escaped(utc_text(record.time) + " · ") + prose(record.backbone) + escaped(facts);
  return page_html(title, header_html(escaped(title), element("p class=\"facts\"", facts_line)),
                   main);
}

std::string doubtful_html(const DataRecord& data, const std::vector<JudgedImage>& doubtful) {
  std::string html;
  std::size_t num_bytes = 0, num_shown = 0;
  for (const JudgedImage& image : doubtful) {
    if (num_shown == kMaxPictures) break;
    const std::string guess = class_name(data, image.guess);
    const std::string truth = class_name(data, image.truth);
    const std::string shown = picture(image.thumbnail, truth + ", perhaps " + guess);
    if (shown.empty() || num_bytes + shown.size() > kMaxPictureBytes) continue;
    html += captioned(shown,
                      caption_line("guess", name_html(guess) + "? " + percent(image.confidence)) +
                          caption_line("truth", "labeled " + name_html(truth)) +
                          caption_line("file", name_html(image.file)));
    num_bytes += shown.size();
    ++num_shown;
  }
  if (html.empty()) return "";
  return section(
      "doubtful", "Labels that the models doubt",
      element("p",
              prose("Judged by the models of folds that have not seen the image (confident "
                    "learning), most doubtful first. `kiln audit` lists them all, with duplicates, "
                    "in a file that you can correct and train with.") +
                  how_many_shown(doubtful.size(), num_shown, "that file")) +
          gallery(html));
}

}  // namespace kiln
