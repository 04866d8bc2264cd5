#include "perf/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace softib::perf {

namespace {

constexpr double width = 760, height = 460;
constexpr double left = 70, right = 730, top = 45, bottom = 400;
// Told apart by people who see few colours too (Okabe and Ito).
constexpr std::array<const char*, 7> colors{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                            "#e69f00", "#56b4e9", "#000000"};

// Powers of `base` from one end to the other.
struct Axis {
  double base = 2;
  int first = 0;
  int last = 1;
  double begin = 0;  // where they lie on the paper
  double end = 0;

  [[nodiscard]] double place(double value) const {
    return begin + (std::log(value) / std::log(base) - first) / (last - first) * (end - begin);
  }
};

Axis axis_over(double least, double most, double base, double begin, double end) {
  // A hair of tolerance: log(1024)/log(2) may be a little above 10.
  const int first = static_cast<int>(std::floor(std::log(least) / std::log(base) + 1e-9));
  const int last = static_cast<int>(std::ceil(std::log(most) / std::log(base) - 1e-9));
  return {base, first, std::max(last, first + 1), begin, end};
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '<')
      safe += "&lt;";
    else if (letter == '>')
      safe += "&gt;";
    else if (letter == '&')
      safe += "&amp;";
    else
      safe += letter;
  }
  return safe;
}

std::string bytes_label(int power) {
  constexpr std::array<const char*, 7> units{"", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  if (power < 0) return "";
  return fmt::format("{}{}", 1 << (power % 10), power < 10 ? " B" : units[static_cast<std::size_t>(power / 10)]);
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

std::string line_from(double x1, double y1, double x2, double y2) {
  return fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"#ddd\"/>\n", x1, y1, x2, y2);
}

std::string grid(const Axis& x, const Axis& y) {
  std::string svg;
  const int step = std::max(1, (x.last - x.first + 11) / 12);
  for (int power = (x.first + step - 1) / step * step; power <= x.last; power += step) {
    const double place = x.place(std::pow(2.0, power));
    svg += line_from(place, top, place, bottom) + text_at(place, bottom + 18, "middle", bytes_label(power));
  }
  for (int power = y.first; power <= y.last; ++power) {
    const double place = y.place(std::pow(10.0, power));
    svg += line_from(left, place, right, place) +
           text_at(left - 8, place + 4, "end", fmt::format("{:g}", std::pow(10.0, power)));
  }
  return svg;
}

std::string drawn(const Curve& curve, const Axis& x, const Axis& y, std::size_t number) {
  const char* color = colors[number % colors.size()];
  std::string path;
  std::string marks;
  for (const Point& point : curve.points) {
    if (!(point.bandwidth > 0) || !(point.bytes > 0)) continue;
    const double across = x.place(point.bytes);
    const double up = y.place(point.bandwidth);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", across, up);
    marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n", across, up, color);
  }
  if (path.empty()) return {};
  const double row = top + 14 + 15 * static_cast<double>(number);
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n{}", path, color, marks) +
         fmt::format("<path d=\"M{:.1f} {:.1f}h20\" stroke=\"{}\" stroke-width=\"3\"/>\n", left + 10, row - 4, color) +
         text_at(left + 36, row, "start", curve.name);
}

struct Bounds {
  Point least{std::numeric_limits<double>::max(), std::numeric_limits<double>::max()};
  Point most{0, 0};
};

Bounds bounds_of(const std::vector<Curve>& curves) {
  Bounds bounds;
  for (const Curve& curve : curves)
    for (const Point& point : curve.points) {
      if (!(point.bandwidth > 0) || !(point.bytes > 0)) continue;
      bounds.least.bytes = std::min(bounds.least.bytes, point.bytes);
      bounds.least.bandwidth = std::min(bounds.least.bandwidth, point.bandwidth);
      bounds.most.bytes = std::max(bounds.most.bytes, point.bytes);
      bounds.most.bandwidth = std::max(bounds.most.bandwidth, point.bandwidth);
    }
  return bounds;
}

}  // namespace

std::string plot_svg(const std::string& title, const std::vector<Curve>& curves) {
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      width, height);
  svg += text_at((left + right) / 2, 26, "middle", title);
  const Bounds bounds = bounds_of(curves);
  if (bounds.most.bytes == 0) return svg + text_at(width / 2, height / 2, "middle", "no data moved") + "</svg>\n";
  const Axis x = axis_over(bounds.least.bytes, bounds.most.bytes, 2, left, right);
  const Axis y = axis_over(bounds.least.bandwidth, bounds.most.bandwidth, 10, bottom, top);
  svg += grid(x, y);
  svg += text_at((left + right) / 2, bottom + 42, "middle", "size");
  svg += fmt::format("<g transform=\"translate(18,{:.1f}) rotate(-90)\">{}</g>\n", (top + bottom) / 2,
                     text_at(0, 0, "middle", "bus bandwidth, GB/s"));
  for (std::size_t number = 0; number < curves.size(); ++number) svg += drawn(curves[number], x, y, number);
  return svg + "</svg>\n";
}

}  // namespace softib::perf
