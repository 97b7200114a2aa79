#include "base/unicode_form.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace kiln {
namespace {

// The canonical decompositions of Latin, Greek, Cyrillic and kana (UnicodeData.txt), sorted: the
// composed character, its base, and the combining mark: U+0300 and on from '0', U+3099 as 'y' and
// U+309A as 'z'.
constexpr std::u16string_view kDecompositions =
    u"ÀA0ÁA1ÂA2ÃA3ÄA8ÅA:ÇCWÈE0ÉE1ÊE2ËE8ÌI0ÍI1ÎI2ÏI8ÑN3ÒO0ÓO1ÔO2ÕO3ÖO8ÙU0ÚU1ÛU2ÜU8ÝY1àa0áa1"
    u"âa2ãa3äa8åa:çcWèe0ée1êe2ëe8ìi0íi1îi2ïi8ñn3òo0óo1ôo2õo3öo8ùu0úu1ûu2üu8ýy1ÿy8ĀA4āa4ĂA6"
    u"ăa6ĄAXąaXĆC1ćc1ĈC2ĉc2ĊC7ċc7ČC<čc<ĎD<ďd<ĒE4ēe4ĔE6ĕe6ĖE7ėe7ĘEXęeXĚE<ěe<ĜG2ĝg2ĞG6ğg6ĠG7"
    u"ġg7ĢGWģgWĤH2ĥh2ĨI3ĩi3ĪI4īi4ĬI6ĭi6ĮIXįiXİI7ĴJ2ĵj2ĶKWķkWĹL1ĺl1ĻLWļlWĽL<ľl<ŃN1ńn1ŅNWņnW"
    u"ŇN<ňn<ŌO4ōo4ŎO6ŏo6ŐO;őo;ŔR1ŕr1ŖRWŗrWŘR<řr<ŚS1śs1ŜS2ŝs2ŞSWşsWŠS<šs<ŢTWţtWŤT<ťt<ŨU3ũu3"
    u"ŪU4ūu4ŬU6ŭu6ŮU:ůu:ŰU;űu;ŲUXųuXŴW2ŵw2ŶY2ŷy2ŸY8ŹZ1źz1ŻZ7żz7ŽZ<žz<ƠOKơoKƯUKưuKǍA<ǎa<ǏI<"
    u"ǐi<ǑO<ǒo<ǓU<ǔu<ǕÜ4ǖü4ǗÜ1ǘü1ǙÜ<ǚü<ǛÜ0ǜü0ǞÄ4ǟä4ǠȦ4ǡȧ4ǢÆ4ǣæ4ǦG<ǧg<ǨK<ǩk<ǪOXǫoXǬǪ4ǭǫ4ǮƷ<"
    u"ǯʒ<ǰj<ǴG1ǵg1ǸN0ǹn0ǺÅ1ǻå1ǼÆ1ǽæ1ǾØ1ǿø1ȀA?ȁa?ȂAAȃaAȄE?ȅe?ȆEAȇeAȈI?ȉi?ȊIAȋiAȌO?ȍo?ȎOAȏoA"
    u"ȐR?ȑr?ȒRAȓrAȔU?ȕu?ȖUAȗuAȘSVșsVȚTVțtVȞH<ȟh<ȦA7ȧa7ȨEWȩeWȪÖ4ȫö4ȬÕ4ȭõ4ȮO7ȯo7ȰȮ4ȱȯ4ȲY4ȳy4"
    u"΅¨1ΆΑ1ΈΕ1ΉΗ1ΊΙ1ΌΟ1ΎΥ1ΏΩ1ΐϊ1ΪΙ8ΫΥ8άα1έε1ήη1ίι1ΰϋ1ϊι8ϋυ8όο1ύυ1ώω1ϓϒ1ϔϒ8ЀЕ0ЁЕ8ЃГ1ЇІ8ЌК1"
    u"ЍИ0ЎУ6ЙИ6йи6ѐе0ёе8ѓг1їі8ќк1ѝи0ўу6ѶѴ?ѷѵ?ӁЖ6ӂж6ӐА6ӑа6ӒА8ӓа8ӖЕ6ӗе6ӚӘ8ӛә8ӜЖ8ӝж8ӞЗ8ӟз8ӢИ4"
    u"ӣи4ӤИ8ӥи8ӦО8ӧо8ӪӨ8ӫө8ӬЭ8ӭэ8ӮУ4ӯу4ӰУ8ӱу8ӲУ;ӳу;ӴЧ8ӵч8ӸЫ8ӹы8ḀAUḁaUḂB7ḃb7ḄBSḅbSḆBaḇbaḈÇ1"
    u"ḉç1ḊD7ḋd7ḌDSḍdSḎDaḏdaḐDWḑdWḒD]ḓd]ḔĒ0ḕē0ḖĒ1ḗē1ḘE]ḙe]ḚE`ḛe`ḜȨ6ḝȩ6ḞF7ḟf7ḠG4ḡg4ḢH7ḣh7ḤHS"
    u"ḥhSḦH8ḧh8ḨHWḩhWḪH^ḫh^ḬI`ḭi`ḮÏ1ḯï1ḰK1ḱk1ḲKSḳkSḴKaḵkaḶLSḷlSḸḶ4ḹḷ4ḺLaḻlaḼL]ḽl]ḾM1ḿm1ṀM7"
    u"ṁm7ṂMSṃmSṄN7ṅn7ṆNSṇnSṈNaṉnaṊN]ṋn]ṌÕ1ṍõ1ṎÕ8ṏõ8ṐŌ0ṑō0ṒŌ1ṓō1ṔP1ṕp1ṖP7ṗp7ṘR7ṙr7ṚRSṛrSṜṚ4"
    u"ṝṛ4ṞRaṟraṠS7ṡs7ṢSSṣsSṤŚ7ṥś7ṦŠ7ṧš7ṨṢ7ṩṣ7ṪT7ṫt7ṬTSṭtSṮTaṯtaṰT]ṱt]ṲUTṳuTṴU`ṵu`ṶU]ṷu]ṸŨ1"
    u"ṹũ1ṺŪ8ṻū8ṼV3ṽv3ṾVSṿvSẀW0ẁw0ẂW1ẃw1ẄW8ẅw8ẆW7ẇw7ẈWSẉwSẊX7ẋx7ẌX8ẍx8ẎY7ẏy7ẐZ2ẑz2ẒZSẓzSẔZa"
    u"ẕzaẖhaẗt8ẘw:ẙy:ẛſ7ẠASạaSẢA9ảa9ẤÂ1ấâ1ẦÂ0ầâ0ẨÂ9ẩâ9ẪÂ3ẫâ3ẬẠ2ậạ2ẮĂ1ắă1ẰĂ0ằă0ẲĂ9ẳă9ẴĂ3ẵă3"
    u"ẶẠ6ặạ6ẸESẹeSẺE9ẻe9ẼE3ẽe3ẾÊ1ếê1ỀÊ0ềê0ỂÊ9ểê9ỄÊ3ễê3ỆẸ2ệẹ2ỈI9ỉi9ỊISịiSỌOSọoSỎO9ỏo9ỐÔ1ốô1"
    u"ỒÔ0ồô0ỔÔ9ổô9ỖÔ3ỗô3ỘỌ2ộọ2ỚƠ1ớơ1ỜƠ0ờơ0ỞƠ9ởơ9ỠƠ3ỡơ3ỢƠSợơSỤUSụuSỦU9ủu9ỨƯ1ứư1ỪƯ0ừư0ỬƯ9ửư9"
    u"ỮƯ3ữư3ỰƯSựưSỲY0ỳy0ỴYSỵySỶY9ỷy9ỸY3ỹy3がかyぎきyぐくyげけyごこyざさyじしyずすyぜせyぞそyだたyぢ"
    u"ちyづつyでてyどとyばはy"
    u"ぱはzびひyぴひzぶふyぷふzべへyぺへzぼほyぽほzゔうyゞゝyガカyギキyグクyゲケyゴコyザサyジシyズ"
    u"スyゼセyゾソyダタyヂチyヅツyデテyドトyバハyパハz"
    u"ビヒyピヒzブフyプフzベヘyペヘzボホyポホzヴウyヷワyヸヰyヹヱyヺヲyヾヽy";

void append(char32_t code, std::string& text) {
  const auto byte = [&](char32_t bits) { text += static_cast<char>(bits); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
  }
  byte(0x80 | (code & 0x3F));
}

void append_decomposed(char32_t code, std::string& text) {
  if (code >= 0xAC00 && code < 0xD7A4) {  // Hangul (Unicode, section 3.12)
    const char32_t index = code - 0xAC00;
    append(0x1100 + index / 588, text);
    append(0x1161 + index % 588 / 28, text);
    if (index % 28 > 0) append(0x11A7 + index % 28, text);
    return;
  }
  std::size_t low = 0, high = kDecompositions.size() / 3;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (kDecompositions[middle * 3] < code)
      low = middle + 1;
    else
      high = middle;
  }
  const std::u16string_view row = kDecompositions.substr(low * 3, 3);
  if (row.empty() || row[0] != code) return append(code, text);
  append_decomposed(row[1], text);
  append(row[2] >= u'y' ? 0x3099 + (row[2] - u'y') : 0x0300 + (row[2] - u'0'), text);
}

// Calls `visit` with each character of UTF-8 text.
template <typename Visit>
void for_each_character(std::string_view text, Visit&& visit) {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i++]);
    const unsigned kept = first < 0x80 ? 0x7F : first < 0xE0 ? 0x1F : first < 0xF0 ? 0xF : 7;
    char32_t code = first & kept;
    for (; i < text.size() && !begins_character(text[i]); ++i)
      code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
    visit(code);
  }
}

std::string decomposed(std::string_view name) {
  std::string text;
  for_each_character(name, [&](char32_t code) { append_decomposed(code, text); });
  return text;
}

bool is_blank(char32_t code) {
  return code == ' ' || code == '\t' || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x202F || code == 0x205F || code == 0x3000;
}

// Zero-width characters, line ends, marks of direction, the soft hyphen, a byte-order mark.
bool is_unseen(char32_t code) {
  return code == 0xAD || code == 0x61C || (code >= 0x200B && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x2069) || code == 0xFEFF;
}

// Of Latin, Greek and Cyrillic letters without accents.
char32_t in_small(char32_t code) {
  const auto is_in = [&](char32_t first, char32_t last) { return code >= first && code <= last; };
  if (is_in('A', 'Z') || is_in(0x391, 0x3A9) || is_in(0x410, 0x42F)) return code + 0x20;
  return is_in(0x400, 0x40F) ? code + 0x50 : code;
}

// What names that look alike have in common.
std::string look_of(std::string_view name) {
  std::string text;
  bool has_blank = false;
  for_each_character(decomposed(name), [&](char32_t code) {
    if (is_unseen(code)) return;
    if (!is_blank(code)) {
      if (has_blank && !text.empty()) text += ' ';
      append(in_small(code), text);
    }
    has_blank = is_blank(code);
  });
  return text;
}

// With every character beyond ASCII as \u00e9.
std::string escaped(std::string_view name) {
  std::string text;
  for_each_character(name, [&](char32_t code) {
    text += code < 0x80 ? std::string(1, static_cast<char>(code))
                        : formatted("\\u%04x", static_cast<unsigned>(code));
  });
  return printable(text);
}

std::string twin_text(std::string_view name, std::string_view twin) {
  return "'" + escaped(name) + "' (the same name as '" + escaped(twin) +
         "' in another Unicode form: rename one)";
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

bool is_clean(std::string_view name) {
  bool clean = is_utf8(name);
  for_each_character(name, [&](char32_t code) {
    clean = clean && (code >= ' ' || code == '\t') && (code < 0x7F || code > 0x9F);
  });
  return clean;
}

std::string as_utf8(const std::string& name) {
  return is_utf8(name) ? name : printable(name);
}

std::string quoted_among(const std::string& name, const std::vector<std::string>& known) {
  const std::string form = is_ascii(name) ? std::string() : decomposed(name);
  const auto twin = std::ranges::find_if(known, [&](const std::string& other) {
    return !form.empty() && other != name && !is_ascii(other) && decomposed(other) == form;
  });
  return twin == known.end() ? "'" + printable(name) + "'" : twin_text(name, *twin);
}

std::string quoted_among(const std::vector<std::string>& names,
                         const std::vector<std::string>& known, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i == 0 ? "" : ", ") + quoted_among(names[i], known);
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

std::string note_of_twins(const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, std::string>> looks;
  looks.reserve(names.size());
  for (const std::string& name : names) looks.emplace_back(look_of(name), name);
  std::ranges::sort(looks);
  std::string note;
  int more = 0;
  for (std::size_t i = 1; i < looks.size(); ++i) {
    const std::string &twin = looks[i - 1].second, &name = looks[i].second;
    if (looks[i - 1].first != looks[i].first || twin == name) continue;
    more += note.empty() ? 0 : 1;
    if (!note.empty()) continue;
    note = "two classes look alike: ";
    note += decomposed(twin) == decomposed(name)
                ? twin_text(name, twin)
                : "'" + escaped(name) + "' (the same name as '" + escaped(twin) +
                      "' but for capitals, blanks or characters that are not seen: rename one, or "
                      "give both one name if they are one class)";
  }
  return more == 0 ? note : note + formatted(", and %d more", more);
}

}  // namespace kiln
