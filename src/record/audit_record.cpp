#include "record/audit_record.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/content_hash.h"
#include "base/json.h"
#include "base/text.h"
#include "record/run_json.h"

namespace kiln {

void visit_fields(Is<AuditedClass> auto& audited, auto&& field) {
  fields(field, "label", audited.name, "images", audited.images, "probably_wrong", audited.wrong,
         "mostly_belong_to", audited.belongs_to, "probably_missing", audited.missing, "doubtful",
         audited.num_doubtful);
}

void visit_fields(Is<OddImage> auto& odd, auto&& field) {
  fields(field, "path", odd.image.file, "label", odd.image.label, "kind", odd.kind, "reason",
         odd.reason, "extent", odd.extent);
}

void visit_fields(Is<DoubtfulLabel> auto& doubtful, auto&& field) {
  fields(field, "path", doubtful.image.file, "label", doubtful.image.label, "suggested",
         doubtful.suggested, "confidence", doubtful.confidence, "self_confidence",
         doubtful.self_confidence);
}

namespace {

constexpr const char* kDoubtfulHash = "doubtful_csv_hash";

Json copy_json(const CopiedImage& copy) {
  return {{"path", copy.first.file},
          {"label", copy.first.label},
          {"other", copy.other.file},
          {"other_label", copy.other.label},
          {"kind", copy.is_exact ? "exact" : "near"},
          {"same_class", copy.first.label == copy.other.label}};
}

// The name of the image's set, as in split.csv.
const char* set_name(const AuditedImage& image) {
  return image.validates ? "valid" : "train";
}

}  // namespace

std::size_t num_copies_across_sets(const AuditRecord& record) {
  return static_cast<std::size_t>(std::ranges::count_if(
      record.copies, [](auto& copy) { return copy.first.validates != copy.other.validates; }));
}

std::string audit_json(const AuditRecord& record) {
  const Interval interval = out_of_fold_interval(record.num_agreed, record.num_judged);
  std::int64_t num_wrong = 0;  // by confident learning: too many rather than too few
  for (const AuditedClass& audited : record.classes)
    num_wrong += audited.wrong + (record.has_several_labels ? audited.missing : 0);
  Json json = {{"time", record.time},
               {"data_path", record.data_path},
               {"backbone", record.backbone},
               {"images", record.num_images},
               {"bad_images", record.num_bad},
               {"decided", record.num_decided},
               {"folds", record.num_folds},
               {"agreed", record.num_agreed},
               {"agreed_interval", {interval.low, interval.high}},
               {"can_judge", can_judge(record)},
               {"probably_wrong", can_judge(record) ? Json(num_wrong) : Json()},
               {"device", record.device},
               {"precision", record.precision},
               {"options", as_json(record.options)},
               {"versions", as_json(record.versions)}};
  json[kDoubtfulHash] = hex_digits(content_hash(doubtful_csv(record)));
  json["classes"] = as_json(record.classes);
  json["doubtful"] = as_json(record.doubtful);
  json["duplicates"] = list_json(record.copies, copy_json);
  if (!record.valid_data_path.empty()) {
    json["valid_data_path"] = record.valid_data_path;
    for (std::size_t i = 0; i < record.copies.size(); ++i) {
      json["duplicates"][i]["set"] = set_name(record.copies[i].first);
      json["duplicates"][i]["other_set"] = set_name(record.copies[i].other);
    }
  }
  json["shortcuts"] = record.has_several_labels ? Json() : as_json(record.shortcuts);
  json["flawed"] = as_json(record.flawed);
  json["faults"] = list_json(record.faults, fault_json);
  return json_text(json, 1) + "\n";
}

std::string doubtful_csv(const AuditRecord& record) {
  std::vector<std::vector<std::string>> rows;
  std::map<std::string, std::size_t> row_of;  // by image
  const auto add = [&](const AuditedImage& image, const std::string& reason,
                       const std::string& suggested = "", const std::string& confidence = "") {
    if (image.is_right) return;
    const auto [row, is_new] = row_of.emplace(image.file, rows.size());
    if (is_new)
      rows.push_back({image.file, image.label, suggested, confidence, reason});
    else
      rows[row->second].back() += "; " + reason;
  };
  for (const DoubtfulLabel& doubtful : record.doubtful)
    add(doubtful.image, "label", doubtful.suggested, formatted("%.4f", doubtful.confidence));
  for (const CopiedImage& copy : record.copies) {
    if (copy.first.label == copy.other.label) continue;
    const char* kind = copy.is_exact ? "copy of " : "looks like ";
    for (const auto& [image, other] :
         {std::pair(&copy.first, &copy.other), std::pair(&copy.other, &copy.first)})
      if (!image->validates)  // --labels corrects the training data only
        add(*image,
            kind + other->file + (other->validates ? " (validation) in " : " in ") + other->label);
  }
  for (const OddImage& odd : record.flawed) add(odd.image, odd.kind);
  std::string text = "path,label,suggested,confidence,reason\n";
  for (const std::vector<std::string>& row : rows) text += csv_row(row);
  return text;
}

bool was_edited(std::string_view doubtful_csv, std::string_view audit_json) try {
  const nlohmann::json json = parse_json(audit_json);
  const auto hash = json.is_object() ? json.find(kDoubtfulHash) : json.end();
  return hash != json.end() && *hash != hex_digits(content_hash(doubtful_csv));
} catch (const JsonFault&) {
  return false;
}

std::string duplicates_csv(const AuditRecord& record) {
  const bool has_sets = !record.valid_data_path.empty();
  std::string text =
      std::string("path,other,kind,same_class") + (has_sets ? ",set,other_set" : "") + "\n";
  for (const CopiedImage& copy : record.copies) {
    std::vector<std::string> fields = {copy.first.file, copy.other.file,
                                       copy.is_exact ? "exact" : "near",
                                       copy.first.label == copy.other.label ? "True" : "False"};
    if (has_sets) fields.insert(fields.end(), {set_name(copy.first), set_name(copy.other)});
    text += csv_row(fields);
  }
  return text;
}

}  // namespace kiln
