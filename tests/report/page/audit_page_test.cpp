#include "report/page/page.h"

#include <gtest/gtest.h>

#include "record/audit_record.h"

namespace kiln {
namespace {

AuditedImage image(const std::string& file, const std::string& label) {
  return {file, label, {8, 8, "jpeg bytes"}};
}

AuditRecord sample() {
  AuditRecord record;
  record.num_images = 1000;
  record.num_bad = 1;
  record.num_judged = 999;
  record.num_agreed = 900;
  record.num_folds = 5;
  record.classes = {{"cat", 500, 30, "<dog>", 10, 1}, {"<dog>", 499, 10, "cat", 30, 1}};
  record.doubtful = {{image("cat/a, b.png", "cat"), "<dog>", 0.9, 0.01},
                     {image("dog/c.png", "<dog>"), "cat", 0.8, 0.1}};
  record.copies = {{image("cat/d.png", "cat"), image("dog/c.png", "<dog>"), true},
                   {image("cat/d.png", "cat"), image("cat/e.png", "cat"), false}};
  record.flawed = {{image("cat/f.png", "cat"), "dark", "a reason", 2}};
  return record;
}

TEST(AuditFile, DoubtfulHasARowAnImage) {
  EXPECT_EQ(doubtful_csv(sample()),
            "path,label,suggested,confidence,reason\n"
            "\"cat/a, b.png\",cat,<dog>,0.9000,label\n"
            "dog/c.png,<dog>,cat,0.8000,label; copy of cat/d.png in cat\n"
            "cat/d.png,cat,,,copy of dog/c.png in <dog>\n"
            "cat/f.png,cat,,,dark\n");
}

TEST(AuditFile, DuplicatesArePairs) {
  EXPECT_EQ(duplicates_csv(sample()),
            "path,other,kind,same_class\n"
            "cat/d.png,dog/c.png,exact,False\n"
            "cat/d.png,cat/e.png,near,True\n");
}

// Paths of validation images are none of the data that --labels corrects.
TEST(AuditFile, CopiesAcrossSetsSayWhichSet) {
  AuditRecord record = sample();
  record.valid_data_path = "photos/val";
  record.copies[0].other.validates = true;
  EXPECT_EQ(num_copies_across_sets(record), 1U);
  EXPECT_EQ(duplicates_csv(record),
            "path,other,kind,same_class,set,other_set\n"
            "cat/d.png,dog/c.png,exact,False,train,valid\n"
            "cat/d.png,cat/e.png,near,True,train,train\n");
  record.doubtful.clear();
  const std::string rows = doubtful_csv(record);
  EXPECT_NE(rows.find("cat/d.png,cat,,,copy of dog/c.png (validation) in <dog>\n"),
            std::string::npos)
      << rows;
  EXPECT_EQ(rows.find("\ndog/c.png"), std::string::npos) << rows;
  EXPECT_EQ(audit_findings(record).front().judged, Judged::kWarning);
  EXPECT_NE(audit_html(record).find("1 across the sets"), std::string::npos);
  EXPECT_NE(audit_json(record).find("\"other_set\": \"valid\""), std::string::npos);
}

TEST(AuditFile, AnEditedListIsNoticed) {
  const AuditRecord record = sample();
  const std::string json = audit_json(record), csv = doubtful_csv(record);
  EXPECT_FALSE(was_edited(csv, json));
  EXPECT_TRUE(was_edited(csv + "x,cat,,,\n", json));
  for (const char* unknown : {"", "[]", "{}", "7"}) EXPECT_FALSE(was_edited(csv, unknown));
}

TEST(AuditPage, ShowsEachListAndEscapesNames) {
  const std::string page = audit_html(sample());
  for (const char* id : {"doubtful", "copies", "flawed", "noise", "trust", "next"})
    EXPECT_NE(page.find("<section id=\"" + std::string(id) + "\""), std::string::npos) << id;
  EXPECT_EQ(page.find("<dog>"), std::string::npos);
  EXPECT_NE(page.find("These models doubt 2 of 999 labels (0.2\u00a0%)"), std::string::npos);
}

TEST(AuditPage, SaysWhereTheOthersAre) {
  AuditRecord record = sample();
  const DoubtfulLabel doubtful = record.doubtful[0];
  record.doubtful.assign(1200, doubtful);
  const std::string page = audit_html(record);
  EXPECT_NE(page.find("The first 1,000 of 1,200; all are in doubtful.csv."), std::string::npos);
}

TEST(AuditPage, HasPicturesBesideItBeyondTheMostThatItHolds) {
  AuditRecord record = sample();
  record.copies.assign(230, record.copies[0]);
  std::vector<OutputFile> beside;
  const std::string page = audit_html(record, {}, &beside);
  ASSERT_EQ(beside.size(), 2U * 30);
  EXPECT_EQ(beside[0].name, "pictures/copies-201a.jpg");
  EXPECT_EQ(beside[0].bytes, "jpeg bytes");
  for (const OutputFile& file : beside)
    EXPECT_NE(page.find("src=\"" + file.name + "\""), std::string::npos) << file.name;
  EXPECT_NE(page.find("img-src data: 'self'"), std::string::npos);
  const std::string alone = audit_html(record);
  EXPECT_EQ(alone.find("pictures/"), std::string::npos);
  EXPECT_NE(alone.find("img-src data:;"), std::string::npos);
}

TEST(AuditPage, SaysHowSureItIs) {
  AuditRecord record = sample();
  EXPECT_EQ(audit_findings(record).back().judged, Judged::kGood);
  record.num_agreed = 300;
  EXPECT_EQ(audit_findings(record).front().judged, Judged::kWarning);
  record.num_judged = 90;
  record.num_agreed = 52;  // 57.8 %, but perhaps only 47.5 %
  EXPECT_FALSE(can_judge(record));
  record.num_agreed = 60;
  EXPECT_TRUE(can_judge(record));
  record.num_seen = 7;
  EXPECT_EQ(audit_findings(record).front().judged, Judged::kWarning);
}

}  // namespace
}  // namespace kiln
