#include <memory>

#include "cli/commands/commands.h"
#include "cli/fault_session.h"

namespace softib::cli {

namespace {

constexpr const char* hca_examples =
    R"(  remove   the card is pulled out: programs that have it open get IBV_EVENT_DEVICE_FATAL and EIO, rdma_cm's ids
           DEVICE_REMOVAL, its links go down, tools don't list it any more
  add      it is plugged in again: new programs may open it; those that had it have to open it anew

Examples:
  softib hca host0/mlx5_0 remove
  softib hca host0/mlx5_0 add)";

struct HcaOptions {
  std::string name = "default";
  std::vector<std::string> words;
};

}  // namespace

void add_hca(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<HcaOptions>();
  CLI::App* command = app.add_subcommand("hca", "Pull an HCA out of its host, or plug it in");
  command->footer(hca_examples);
  add_name(*command, options->name);
  command->add_option("HCA", options->words, "The HCA, as in host0/mlx5_0, and what happens to it")
      ->required()
      ->option_text("remove|add");
  command->callback([options, &exit_code] {
    options->words.insert(options->words.begin(), "hca");
    exit_code = do_fault(options->name, options->words);
  });
}

}  // namespace softib::cli
