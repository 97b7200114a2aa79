#include <algorithm>
#include <functional>

#include "base/text.h"
#include "report/page/gallery.h"
#include "report/page/html.h"
#include "report/page/page.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxDoubts = 1000;
constexpr double kStrong = 0.8;

std::string file_text(const AuditedImage& image) {
  return image.file + (image.validates ? " (validation)" : "");
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
  std::string tiles;
  if (can_judge(record))
    tiles += count_tile("Doubtful labels", "num-doubtful", std::ssize(record.doubtful),
                        "the most doubtful first");
  tiles +=
      count_tile("Copies", "num-copies", std::ssize(record.copies),
                 grouped(copies_between_classes(record)) + " of them with another label" +
                     (record.valid_data_path.empty()
                          ? ""
                          : ", " + grouped(num_copies_across_sets(record)) + " across the sets"));
  tiles +=
      count_tile("Flawed", "num-flawed", std::ssize(record.flawed),
                 record.has_measures ? "dark, bright, blurred, empty, odd, outliers" : "outliers");
  return tiles + accuracy_tile("agreed", "Agreement with the labels", agreed_share(record),
                               out_of_fold_interval(record.num_agreed, record.num_judged));
}

std::string what_to_do(const AuditRecord& record, const std::filesystem::path& folder) {
  std::string items;
  const auto add = [&](const std::string& text) { items += element("li", prose(text)); };
  if (!record.doubtful.empty()) {
    const std::string again = shell_word(record.data_path) + " --labels " +
                              shell_word((folder / "decisions.csv").string()) + "`";
    if (record.has_several_labels) {
      add("Correct the list that your labels are from, with `doubtful.csv` beside this page, whose "
          "rows are in the order of the pictures below, and train again.");
    } else {
      add("Decide below each picture: `suggested` is a guess. Save `decisions.csv` beside this "
          "page. Or edit a copy of `doubtful.csv` there: change wrong labels, empty those of "
          "images to leave out, and delete the rows that you have not looked at.");
      add("Train again with the corrected labels: `kiln train " + again +
          ". The image files stay unchanged. `kiln audit " + again + " remembers the decisions.");
    }
  }
  if (record.copies.size() + record.flawed.size() > 0)
    add("Remove duplicates and empty images; `duplicates.csv` lists the duplicates.");
  return items.empty() ? "" : element("ol", items);
}

// The pictures of one of the record's lists.
template <typename Entry>
Gallery gallery_of(Gallery gallery, const std::vector<Entry>& entries,
                   ShownImage (*shown_image)(const Entry&)) {
  for (const Entry& entry : entries) gallery.pictures.push_back(shown_image(entry));
  return gallery;
}

// With several labels an image, there may be none.
std::string label_or_none(const std::string& label) {
  return label.empty() ? "no class" : label;
}

ShownImage doubtful_picture(const DoubtfulLabel& doubtful) {
  const AuditedImage& image = doubtful.image;
  return {.file = image.file,
          .label = label_or_none(image.label),
          .answer = label_or_none(doubtful.suggested),
          .confidence = doubtful.confidence,
          .notes = {"its label has " + percent(doubtful.self_confidence)},
          .shown = {&image.thumbnail}};
}

ShownImage copy_picture(const CopiedImage& copy) {
  const bool same = copy.first.label == copy.other.label;
  std::vector<std::string> notes = {copy.is_exact ? "same file" : "same picture"};
  if (!same) notes.push_back("labeled " + copy.first.label + " and " + copy.other.label);
  notes.push_back("other: " + file_text(copy.other));
  return {.file = file_text(copy.first),
          .label = copy.first.label,
          .kinds = same ? "one label" : "two labels",
          .notes = std::move(notes),
          .shown = {&copy.first.thumbnail, &copy.other.thumbnail}};
}

ShownImage odd_picture(const OddImage& odd) {
  return {.file = odd.image.file,
          .label = odd.image.label,
          .kinds = odd.kind,
          .notes = {odd.kind, odd.reason},
          .shown = {&odd.image.thumbnail}};
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
    if (rows.size() == kMaxDoubts) break;
    rows.push_back({name_html(audited.name), grouped(audited.images), grouped(audited.wrong),
                    percent(share(audited)), name_html(audited.belongs_to),
                    grouped(audited.missing), grouped(audited.num_doubtful)});
  }
  return section(
      "noise", "Doubted labels by class",
      element("p",
              "Estimates, too many rather than too few: images of the class whose label the "
              "models doubt, the class that they would give most of them, and images of other "
              "classes that they would give this one.") +
          table("Classes, most doubted labels first",
                {text_column("class"), "images", "doubted", "share", text_column("mostly"),
                 "missing", "in the list"},
                rows));
}

// That pictures are beside the page; its script shows the second paragraph when they are not.
std::string beside_html(std::size_t num_pictures) {
  const std::string folder = "the folder `" + std::string(kPictureFolder) + "` beside this page";
  return element("p", prose(plural(num_pictures, "picture is", "pictures are") + " in " + folder +
                            ", which goes where it goes.")) +
         element("p class=\"verdict warning\" id=\"missing\" hidden",
                 prose("Pictures are missing: they were in " + folder + "."));
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
                              " and knows their labels: use weights from other images.");
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
                              " a different label than the original: one of the two is wrong.");
  if (const auto count = static_cast<std::int64_t>(num_copies_across_sets(record)); count > 0)
    add(Judged::kWarning,
        plural(count, "copy of an image is", "copies of images are") +
            " on the other side of the split: the validation accuracy is too optimistic.");
  if (!record.shortcuts.empty()) add(Judged::kWarning, shortcuts_text(record.shortcuts, agreed));
  if (!record.has_measures)
    add(Judged::kWarning,
        "Dark, bright, blurred and empty images were not looked for, since the module that "
        "measures them is missing.");
  if (record.num_bad > 0)
    add(Judged::kWarning,
        plural(record.num_bad, "image", "images") + " could not be decoded or judged.");
  if (can_judge(record) && record.num_judged < kFewJudged)
    add(Judged::kNote, "With " + judged +
                           " the number of wrong labels is a rough estimate; the ranking of the "
                           "images is more reliable.");
  std::stable_partition(findings.begin(), findings.end(),
                        [](const Finding& finding) { return finding.judged == Judged::kWarning; });
  return findings;
}

std::string audit_html(const AuditRecord& record, const std::filesystem::path& page,
                       std::vector<OutputFile>* beside) {
  const std::string title = "Which images deserve a look";
  const std::string facts = " · " + record.device + " · " + record.precision + " · " +
                            plural(record.num_images, "image", "images") + " in " +
                            shortened(record.data_path, 100) +
                            (record.valid_data_path.empty()
                                 ? ""
                                 : ", and copies in " + shortened(record.valid_data_path, 100)) +
                            " · " + std::to_string(record.num_folds) + " folds";
  const std::string galleries =
      gallery_html(gallery_of({.id = "doubtful",
                               .heading = "Labels that the models doubt",
                               .lead = "Judged by a last layer fitted without the image. Above: "
                                       "the suggested label and "
                                       "its probability; below: the given label.",
                               .all_are_in = "doubtful.csv",
                               .asks = !record.has_several_labels},
                              record.doubtful, doubtful_picture),
                   beside) +
      gallery_html(
          gallery_of(
              {.id = "copies",
               .heading = "Copies",
               .lead =
                   prose("Pairs of images that are identical byte for byte, or look the same at a "
                         "different size, format or quality. If their labels differ, one is wrong. "
                         "Duplicates on both sides of a split inflate the accuracy; `kiln train "
                         "--data-path` keeps them on one side."),
               .all_are_in = "duplicates.csv",
               .is_pairs = true},
              record.copies, copy_picture),
          beside) +
      gallery_html(gallery_of({.id = "flawed",
                               .heading = "Dark, bright, blurred, nearly empty, or outliers",
                               .lead = "Images that differ from the typical image of this dataset.",
                               .all_are_in = "audit.json"},
                              record.flawed, odd_picture),
                   beside);
  const bool has_more = beside != nullptr && !beside->empty();
  const std::string main =
      verdict_section("Which labels are doubtful?", audit_verdict(record),
                      "\n" + tiles_of(record)) +
      section("trust", "How sure is it?", findings_list(audit_findings(record))) +
      section("next", "What to do", what_to_do(record, page.parent_path())) +
      (has_more ? beside_html(beside->size()) : "") + galleries + noise_section(record) +
      faults_section(record.faults) + settings_section(record.options, record.versions);
  const std::string facts_line =
      escaped(utc_text(record.time) + " · ") + prose(record.backbone) + escaped(facts);
  return page_html(title, header_html(escaped(title), element("p class=\"facts\"", facts_line)),
                   main, address_of(record.data_path, page), 0, has_more);
}

}  // namespace kiln
