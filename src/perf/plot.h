// A drawing of bus bandwidth over size: SVG, both axes logarithmic.
#pragma once

#include <string>
#include <vector>

#include "base/types.h"

namespace softib::perf {

struct Point {
  double bytes = 0;
  double bandwidth = 0;  // GB/s; what isn't positive has no place on the axis and is left out
};

struct Curve {
  std::string name;
  std::vector<Point> points;
};

[[nodiscard]] std::string plot_svg(const std::string& title, const std::vector<Curve>& curves);

}  // namespace softib::perf
