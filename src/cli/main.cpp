#include "cli/application.h"

int main(int argc, char** argv) { return softib::cli::run_application(argc, argv); }
