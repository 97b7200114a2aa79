#include "report/page/augment_sheet.h"

#include "base/text.h"
#include "record/run_summary.h"
#include "report/page/html.h"
#include "report/page/page.h"

namespace kiln {
namespace {

constexpr int kSmallImage = 96;  // pixels; pictures up to this size are scaled without smoothing

std::string picture(const AugmentSheet& sheet, const AugmentedImage& image, std::size_t variant) {
  const bool is_small = sheet.height <= kSmallImage && sheet.width <= kSmallImage;
  const std::string alt =
      formatted("%s, epoch %zu", shortened(image.file, 60).c_str(), variant + 1);
  return element("figure",
                 std::string(is_small ? "<img class=\"pixels\"" : "<img") + " alt=\"" +
                     escaped(alt) + "\" src=\"data:image/jpeg;base64," +
                     base64(image.variants[variant]) + "\">" +
                     element("figcaption",
                             element("span class=\"file\"", formatted("epoch %zu", variant + 1)))) +
         "\n";
}

std::string row(const AugmentSheet& sheet, const AugmentedImage& image) {
  std::string pictures;
  for (std::size_t i = 0; i < image.variants.size(); ++i) pictures += picture(sheet, image, i);
  const std::string name = element("bdi", escaped(shortened(image.file, 60)));
  const std::string label =
      image.label.empty() ? "" : ", " + element("bdi", escaped(shortened(image.label, 40)));
  return element("h3", name + label) + element("div class=\"mistakes\"", "\n" + pictures);
}

std::string operations(const AugmentSheet& sheet) {
  std::string items;
  for (const std::string_view text : augment_texts(sheet.augment))
    items += element("li", escaped(text)) + "\n";
  return items.empty() ? element("p", "No operation: every epoch shows the same pixels.")
                       : element("ol id=\"operations\"", "\n" + items);
}

}  // namespace

std::string augment_sheet_html(const AugmentSheet& sheet) {
  const std::string title = "--augment " + augment_name(sheet.augment);
  const std::string facts = formatted("%dx%d pixels · seed %lld · %zu images of ", sheet.width,
                                      sheet.height, sheet.seed, sheet.images.size()) +
                            shortened(sheet.data_path, 100);
  std::string rows;
  for (const AugmentedImage& image : sheet.images) rows += row(sheet, image);
  return page_html(
      title + " – Kiln",
      element("header", element("p class=\"brand\"", "Kiln") +
                            element("h1", element("bdi", escaped(title))) +
                            element("p class=\"facts\"", escaped(facts))) +
          element("main", section("order", "Operations, in this order", operations(sheet)) +
                              section("images", "What the model would see",
                                      element("p",
                                              "Each row is one image, as the model sees it in the "
                                              "first epochs with these options and this seed.") +
                                          rows)));
}

}  // namespace kiln
