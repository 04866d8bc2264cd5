#include <fmt/format.h>

#include <memory>

#include "cli/commands/commands.h"
#include "cli/fault_session.h"
#include "cli/link_text.h"
#include "cli/session_folder.h"
#include "cli/status_query.h"
#include "fabric/faults/ends.h"

namespace softib::cli {

namespace {

constexpr const char* link_examples =
    R"(END is one end of the link: SWITCH:PORT or HOST/HCA:PORT (HOST/HCA for port 1). A fault acts on the cable, so
both ends see it. Without a fault, links and their state are shown: all, or those of an END, a switch, host or HCA.

Faults:
  down, up                  the cable is pulled, or plugged in again
  flap                      down and up again, --times N (1), each within --every TIME (1s)
  width W, speed S          the link trains to at most 1x, 2x, 4x, 8x or 12x; SDR, DDR, ... XDR
  ber RATE                  bit errors, as in 1e-12: symbol errors count up, packets get lost
  drop SHARE                lost packets, as in 1%
  delay TIME                how long packets take longer, as in 10us
  reset                     none of these any more, nor what ibportstate has set: both ports are enabled, at full rate
  swap END END              the cables of two ports change places (softib link swap A B)

Examples:
  softib link
  softib link leaf0
  softib link leaf0:1 down
  softib link leaf0:1 reset
  softib link host0/mlx5_0 flap --times 5 --every 200ms
  softib link leaf0:17 width 1x
  softib link leaf0:17 ber 1e-10
  softib link swap leaf0:1 leaf1:1)";

struct LinkOptions {
  std::string name = "default";
  std::vector<std::string> words;
  std::string times;
  std::string every;
  bool as_json = false;
};

// A place as the list of links has it; an error when there is nothing of that name.
fabric::Parsed<std::string> place_in(const std::string& dir, const std::string& word) {
  auto fabric = fabric::load(dir + "/fabric.yaml");
  if (!fabric) return tl::unexpected<fabric::Error>(fabric.error());
  for (const fabric::Switch& sw : fabric->switches)
    if (sw.name == word) return word;
  for (const fabric::Host& host : fabric->hosts) {
    if (host.name == word) return word;
    for (const fabric::Hca& hca : host.hcas)
      if (host.name + "/" + hca.name == word) return word;
  }
  auto end = fabric::parse_end(*fabric, word);
  if (!end) return tl::unexpected<fabric::Error>(end.error());
  return fabric::end_name(*fabric, *end);
}

bool is_ethernet(const std::string& dir) {
  auto fabric = fabric::load(dir + "/fabric.yaml");
  return fabric && fabric->link_layer == ipc::LinkLayer::ethernet;
}

int show(const LinkOptions& options) {
  auto folder = running_folder(options.name);
  if (!folder) return complain(folder.error().text);
  auto links = query_links(*folder);
  if (!links) return complain(links.error().text);
  if (!options.words.empty()) {
    auto place = place_in(*folder, options.words[0]);
    if (!place) return complain("link: " + place.error().text, 2);
    *links = links_at(*links, *place);
  }
  if (links->empty() && !options.as_json && is_ethernet(*folder))
    return complain("link: the fabric is Ethernet (RoCE); links and faults are shown of InfiniBand only");
  fmt::print("{}", options.as_json ? links->dump(2) + "\n" : links_text(*links));
  return 0;
}

int link(const LinkOptions& options) {
  if (options.words.size() < 2 && !(options.words.size() == 1 && options.words[0] == "swap")) {
    if (options.times.empty() && options.every.empty()) return show(options);
    return complain("link: --times and --every are for flap, as in 'softib link leaf0:1 flap --times 5'", 2);
  }
  std::vector<std::string> words = options.words;
  words.insert(words.begin(), "link");
  if (!options.times.empty()) words.insert(words.end(), {"--times", options.times});
  if (!options.every.empty()) words.insert(words.end(), {"--every", options.every});
  return do_fault(options.name, words);
}

}  // namespace

void add_link(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<LinkOptions>();
  CLI::App* command = app.add_subcommand("link", "Show links, or break and mend one");
  command->footer(link_examples);
  add_name(*command, options->name);
  command->add_option("END", options->words, "One end of a link, and what happens to it; see below")
      ->option_text("[FAULT [VALUE]]");
  command->add_option("--times", options->times, "How often a link flaps (default 1)")->option_text("N");
  command->add_option("--every", options->every, "How long each time takes (default 1s; a number alone: ms)")
      ->option_text("TIME");
  command->add_flag("--json", options->as_json, "Show links as JSON");
  command->callback([options, &exit_code] { exit_code = link(*options); });
}

}  // namespace softib::cli
