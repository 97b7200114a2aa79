// The files of `kiln audit` beside its page.
#pragma once

#include <string>
#include <string_view>

#include "record/audit_record.h"

namespace kiln {

inline constexpr const char* kAuditFileName = "audit.json";

// All numbers and lists, without thumbnails.
std::string audit_json(const AuditRecord& record);

// Columns path,label,suggested,confidence,reason: a file for people to edit, which `--labels`
// reads. One row per image: first doubtful labels; then copies with different classes, outliers and
// flawed images that are not listed yet, for which `suggested` and `confidence` are empty. Several
// reasons are joined by "; ".
std::string doubtful_csv(const AuditRecord& record);

// Whether a doubtful.csv was edited after the audit that also wrote `audit_json`. False if
// `audit_json` cannot be parsed.
bool was_edited(std::string_view doubtful_csv, std::string_view audit_json);

// Columns path,other,kind,same_class, and set,other_set if there is a validation set. kind is
// "exact" or "near", same_class "True" or "False".
std::string duplicates_csv(const AuditRecord& record);

}  // namespace kiln
