// The files of `kiln audit` beside its page.
#pragma once

#include <string>
#include <string_view>

#include "report/record/audit_record.h"

namespace kiln {

inline constexpr const char* kAuditFileName = "audit.json";

// All numbers and lists, without thumbnails.
std::string audit_json(const AuditRecord& record);

// path,label,suggested,confidence,reason: what a person edits, and what `--labels` reads. One
// row an image: doubtful labels, then copies of two classes, outliers and flawed ones that are not
// among them. Of the latter `suggested` and `confidence` are empty; several reasons are joined by
// "; ".
std::string doubtful_csv(const AuditRecord& record);

// Whether somebody has changed a doubtful.csv since the audit of `audit_json` wrote it. False where
// the latter cannot be read.
bool was_edited(std::string_view doubtful_csv, std::string_view audit_json);

// path,other,kind,same_class: kind is "exact" or "near", same_class "True" or "False".
std::string duplicates_csv(const AuditRecord& record);

}  // namespace kiln
