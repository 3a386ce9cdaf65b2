//===- Page.cpp - The page from its sections ------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/report/Html.h"
#include "tools/report/Report.h"
#include "tools/report/Sections.h"

#include <nlohmann/json.hpp>

using namespace delta;
using namespace delta::report;
using json = nlohmann::ordered_json;

static json namesJson(const LoweredSide &side) {
  json out = json::array();
  for (const LoweredClass &lowered : side.classes)
    out.push_back(shortName(lowered.names[0]));
  return out;
}

/// Names by class, and boxes as [class, way, tensor, offset, tensor offset,
/// extents, strides, tensor strides, images]; an image is [class, first way,
/// end of ways, offset, strides].
std::string report::scriptData(const View &view) {
  auto list = [](const delta_box_t &box, const int64_t *values) {
    return std::vector<int64_t>(values, values + box.num_loops);
  };
  json boxes = json::array();
  for (const LoweredBox &lowered : view.plan.boxes) {
    const delta_box_t &box = lowered.row;
    const delta_image_t &to = lowered.hfImage;
    json images = json::array();
    if (!view.plan.destinationIsHf)
      for (const delta_image_t &image : lowered.images)
        images.push_back({image.class_index, image.way_begin, image.way_end,
                          image.offset, list(box, image.stride)});
    boxes.push_back({box.source_class, box.source_way, to.class_index,
                     box.source_offset, to.offset, list(box, box.extent),
                     list(box, box.source_stride), list(box, to.stride),
                     images});
  }
  json data;
  data["s"] = namesJson(view.plan.source);
  data["t"] = namesJson(view.plan.hf);
  data["boxes"] = boxes;
  // Nothing in the data may end the element that holds it.
  std::string out;
  for (char c : data.dump(-1, ' ', false, json::error_handler_t::replace))
    out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

static std::string header(const View &view) {
  char fingerprint[40];
  snprintf(fingerprint, sizeof(fingerprint), "%016llx%016llx",
           static_cast<unsigned long long>(view.plan.fingerprint[0]),
           static_cast<unsigned long long>(view.plan.fingerprint[1]));
  return "<header>\n<h1>" + escape(view.plan.model) + "</h1>\n<p>" +
         escape(view.plan.compiler) + ", plan <code>" + fingerprint +
         "</code></p>\n</header>\n";
}

static std::string contents(const View &view) {
  std::string out = "<nav>\n<ul>\n"
                    "<li><a href=\"#proof\">What was proved</a></li>\n"
                    "<li><a href=\"#exceptions\">Left out, copied</a></li>\n"
                    "<li><a href=\"#geometry\">Geometry</a></li>\n"
                    "<li><a href=\"#ranks\">Bytes of each rank</a></li>\n"
                    "<li><a href=\"#traffic\">Who sends to whom</a></li>\n"
                    "<li><a href=\"#classes\">Classes</a>\n<ul>\n";
  const std::vector<LoweredClass> &classes = view.plan.source.classes;
  for (size_t i = 0; i < classes.size(); ++i)
    out += "<li><a href=\"#class-" + std::to_string(i) + "\">" +
           codeText(shortName(classes[i].names[0])) + "</a></li>\n";
  return out + "</ul></li>\n</ul>\n</nav>\n";
}

static const char *const explanation =
    "<p>A class is all parameters that differ only in layer, expert and rank; "
    "a drawing is one of them. <b>Color</b> says the way: which shard of the "
    "trainer. <b>Shade and letter</b> say the section: which part of which "
    "tensor. Numbers at the edges count rows and columns. Small bands are "
    "drawn "
    "thicker than they are; \u22ee and \u2026 stand for stripes left out.</p>\n"
    "<noscript><p>With scripts, a pointer on a drawing tells where an element "
    "goes, and one way can be shown alone. Everything else is here without.</p>"
    "</noscript>\n"
    "<p class=\"script\" hidden>Point at a drawing to see where an element "
    "goes; choose a way, or click on one, to see it alone.</p>\n";

std::string report::printReport(const LoweredPlan &plan, const Facts &facts) {
  View view(plan, facts);
  Traffic traffic(view.tables.tables());
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
      escape(plan.model) + "</title>\n<style>\n" + pageStyle +
      "</style>\n</head>\n<body>\n"
      "<svg class=\"defs\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>"
      "<pattern id=\"hatch\" width=\"6\" height=\"6\" "
      "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
      "<rect width=\"6\" height=\"6\" class=\"hatch-back\"/>"
      "<rect width=\"2\" height=\"6\" class=\"hatch-line\"/></pattern>"
      "</defs></svg>\n" +
      header(view) + "<div class=\"page\">\n" + contents(view) + "<main>\n" +
      proofSection(view) + exceptionsSection(view) + geometrySection(view) +
      ranksSection(view, traffic) + trafficSection(view, traffic) +
      "<section id=\"classes\">\n<h2>Classes</h2>\n" + explanation;
  for (uint32_t i = 0; i < plan.source.classes.size(); ++i)
    out += classCard(view, i);
  out += "</section>\n</main>\n</div>\n<div id=\"tip\" hidden></div>\n"
         "<script type=\"application/json\" id=\"data\">" +
         scriptData(view) + "</script>\n<script>\n" + pageScript +
         "</script>\n</body>\n</html>\n";
  return out;
}
