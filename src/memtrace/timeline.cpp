// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/timeline.hpp"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "gpuwarden/base/markup.hpp"
#include "gpuwarden/base/text.hpp"
#include "memtrace/timeline_data.hpp"
#include "memtrace/timeline_page.hpp"

namespace gpuwarden::memtrace {
namespace {

constexpr std::size_t kPoints = 2000;

/// One column of a table as a JSON member: "size":[1,2,3]. Only numbers go into the page.
template <class Row, class Field>
void add_column(std::string& json, std::string_view name, const std::vector<Row>& rows, Field field) {
  fmt::format_to(std::back_inserter(json), "{}\"{}\":[", json.ends_with('{') ? "" : ",", name);
  for (const Row& row : rows)
    fmt::format_to(std::back_inserter(json), "{}{}", json.ends_with('[') ? "" : ",", +field(row));
  json += ']';
}

std::string blocks_json(const std::vector<Lifetime>& blocks) {
  std::string json = "{";
  add_column(json, "block", blocks, [](const Lifetime& one) { return one.block; });
  add_column(json, "size", blocks, [](const Lifetime& one) { return one.size; });
  add_column(json, "place", blocks, [](const Lifetime& one) { return one.place; });
  add_column(json, "stream", blocks, [](const Lifetime& one) { return one.stream; });
  add_column(json, "begin", blocks, [](const Lifetime& one) { return one.begin; });
  add_column(json, "end", blocks, [](const Lifetime& one) { return one.end; });
  add_column(json, "begin_us", blocks, [](const Lifetime& one) { return one.begin_us; });
  add_column(json, "end_us", blocks, [](const Lifetime& one) { return one.end_us; });
  add_column(json, "before", blocks, [](const Lifetime& one) { return one.before ? 1 : 0; });
  add_column(json, "freed", blocks, [](const Lifetime& one) { return one.freed ? 1 : 0; });
  return json + "}";
}

std::string mapped_json(const std::vector<MappedRun>& runs) {
  std::string json = "{";
  add_column(json, "place", runs, [](const MappedRun& one) { return one.place; });
  add_column(json, "size", runs, [](const MappedRun& one) { return one.size; });
  add_column(json, "begin", runs, [](const MappedRun& one) { return one.begin; });
  add_column(json, "end", runs, [](const MappedRun& one) { return one.end; });
  add_column(json, "begin_us", runs, [](const MappedRun& one) { return one.begin_us; });
  add_column(json, "end_us", runs, [](const MappedRun& one) { return one.end_us; });
  return json + "}";
}

std::string curve_json(const std::vector<CurvePoint>& points) {
  std::string json = "{";
  add_column(json, "operation", points, [](const CurvePoint& one) { return one.operation; });
  add_column(json, "time_us", points, [](const CurvePoint& one) { return one.time_us; });
  add_column(json, "live", points, [](const CurvePoint& one) { return one.live; });
  add_column(json, "mapped", points, [](const CurvePoint& one) { return one.mapped; });
  return json + "}";
}

}  // namespace

std::string timeline_html(const Recording& recording, const TimelineText& text) {
  const TimelineData data = timeline_data(recording, kBlocksDrawn, kPoints);
  const std::string title = markup_text(printable(text.title));
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>{}</style>\n"
      "</head>\n<body>\n<h1>{}</h1>\n",
      title, kTimelineStyle, title);
  for (const std::string& note : text.notes) page += fmt::format("<p>{}</p>\n", markup_text(printable(note)));
  if (data.left_out > 0)
    page += fmt::format(
        "<p>{} blocks are drawn; {} smaller or shorter ones are left out of the lower picture, not of the curve.</p>\n",
        data.blocks.size(), data.left_out);
  page += kTimelineBody;
  page += fmt::format(
      "<script type=\"application/json\" "
      "id=\"data\">{{\"operations\":{},\"duration_us\":{},\"height\":{},\"blocks\":{},"
      "\"mapped\":{},\"curve\":{}}}</script>\n",
      data.operations, data.duration_us, data.height, blocks_json(data.blocks), mapped_json(data.mapped),
      curve_json(data.curve));
  page += fmt::format("<script>{}</script>\n</body>\n</html>\n", kTimelineScript);
  return page;
}

}  // namespace gpuwarden::memtrace
