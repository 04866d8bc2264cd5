// softib topo: nothing runs, text goes in and comes out.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "command.h"

namespace softib::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class Topo : public CommandTest {
 protected:
  Outcome topo(std::vector<std::string> words) {
    words.insert(words.begin(), "topo");
    return softib(words);
  }
};

TEST_F(Topo, GenerateShowCheck) {
  Outcome outcome =
      topo({"generate", "superpod", "--generation", "h100", "--units", "1", "--name", "pod", "-o", file("pod.yaml")});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out + outcome.err, "");
  EXPECT_EQ(topo({"show", file("pod.yaml")}).out,
            "fabric 'pod', InfiniBand\n"
            "hosts 31, HCAs 248, HCA ports 248 (248 cabled), subnets 1\n"
            "switches 12, cables 504\n"
            "\n"
            "TIER  SWITCHES  PORTS  USED  DOWN  ACROSS   UP  RATIO\n"
            "   1         8    512   504   248       0  256  0.97:1\n"
            "   2         4    256   256   256       0    0  -\n"
            "\n"
            "from the first half of the hosts to the second: 48.0 Tb/s, 100% of what they can send\n");
  outcome = topo({"check", file("pod.yaml")});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, file("pod.yaml") + ": hosts 31, switches 12, cables 504; nothing to note\n");
}

TEST_F(Topo, ConvertThereAndBack) {
  ASSERT_EQ(
      topo({"generate", "fat-tree", "--hosts", "12", "--radix", "8", "--speed", "ndr", "-o", file("a.yaml")}).exit_code,
      0);
  EXPECT_EQ(topo({"convert", file("a.yaml"), "--to", "ibnetdiscover", "-o", file("a.net")}).exit_code, 0);
  Outcome back = topo({"convert", file("a.net"), "-o", file("b.yaml")});
  EXPECT_EQ(back.exit_code, 0);
  EXPECT_EQ(back.err, "");
  EXPECT_EQ(shell("cat " + file("a.yaml")).out, shell("cat " + file("b.yaml")).out);
  Outcome piped = shell("cat " + file("a.net") + " | \"$SOFTIB\" topo convert - --name other | head -1");
  EXPECT_EQ(piped.out, "fabric: \"other\"\n");
}

TEST_F(Topo, ATopologyInAFileIsTheGeneratedOne) {
  write("t.yaml", "topology: {kind: dragonfly, groups: 3, routers: 2, hosts: 1, global_links: 1}\n");
  std::string generated =
      topo({"generate", "dragonfly", "--groups", "3", "--routers", "2", "--hosts", "1", "--global-links", "1"}).out;
  EXPECT_THAT(generated, StartsWith("fabric: \"default\"\n"));
  EXPECT_EQ(topo({"convert", file("t.yaml")}).out, generated);
}

TEST_F(Topo, WhatIsLeftOutIsSaid) {
  write("r.net",
        "Switch 4 \"S-10\" # \"sw\" base port 0 lid 1 lmc 0\n[1] \"H-20\"[1](20) # \"a mlx5_0\" lid 2 4xEDR\n"
        "[2] \"R-30\"[1](30) # \"way\" lid 3 4xEDR\n\nCa 1 \"H-20\" # \"a mlx5_0\"\n"
        "[1](20) \"S-10\"[1] # lid 2 lmc 0 \"sw\" lid 1 4xEDR\n\nRt 1 \"R-30\" # \"way\"\n"
        "[1](30) \"S-10\"[2] # lid 3 lmc 0 \"sw\" lid 1 4xEDR\n");
  std::string said =
      file("r.net") + ":8: router 'way' and its links (1) are left out: there are no routers in SoftIB\n";
  Outcome outcome = topo({"convert", file("r.net")});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "softib: warning: " + said);
  outcome = topo({"check", file("r.net")});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, StartsWith("note: " + said));
  EXPECT_EQ(topo({"check", "--strict", file("r.net")}).exit_code, 1);
}

TEST_F(Topo, WhatLooksLikeADescriptionAndIsNone) {
  write("list", "Ca\t: 0x5254 ports 1 devid 0x101b vendid 0x2c9 \"a mlx5_0\"\n");
  EXPECT_THAT(topo({"check", file("list")}).err, HasSubstr("ibnetdiscover -l"));
  write("packed", "\x1f\x8b\x08 and so on");
  EXPECT_THAT(topo({"check", file("packed")}).err, HasSubstr("gunzip"));
  write("tab.yaml", "hosts:\n\t- a\n");
  EXPECT_THAT(topo({"check", file("tab.yaml")}).err, HasSubstr("is there a tab?"));
  write("members.yaml", "hosts: 1\npartitions: 'A=2: 0x99=full;'\n");
  EXPECT_THAT(topo({"check", file("members.yaml")}).out, HasSubstr("that no port has: 0x0000000000000099 in A"));
}

TEST_F(Topo, SwitchesWithAggregationNodes) {
  ASSERT_EQ(
      topo({"generate", "fat-tree", "--hosts", "16", "--radix", "8", "--aggregation", "-o", file("a.yaml")}).exit_code,
      0);
  write("t.yaml", "aggregation: true\ntopology: {kind: fat-tree, hosts: 16, radix: 8}\n");
  EXPECT_EQ(topo({"convert", file("t.yaml")}).out, shell("cat " + file("a.yaml")).out);
  EXPECT_THAT(topo({"show", file("a.yaml")}).out, HasSubstr("aggregation nodes 6\n"));
  EXPECT_EQ(topo({"check", file("a.yaml")}).out,
            file("a.yaml") + ": hosts 16, switches 6, cables 38; nothing to note\n");
  const std::string dump = topo({"convert", file("a.yaml"), "--to", "ibnetdiscover"}).out;
  EXPECT_THAT(dump, HasSubstr("[9]\t\"H-"));
  EXPECT_THAT(dump, HasSubstr("# \"Mellanox Technologies Aggregation Node\""));
}

TEST_F(Topo, FaultsNameLineAndCause) {
  write("bad.yaml", "hosts: 2\ncables:\n  - [host0/mlx5_0/1, sw0/99]\n");
  Outcome outcome = topo({"check", file("bad.yaml")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "softib: " + file("bad.yaml") + ":3: switch 'sw0' has no port '99'; its ports are 1 to 40\n");
  EXPECT_EQ(topo({"show", file("none")}).err, "softib: " + file("none") + ": No such file or directory\n");
  outcome = topo({"generate", "fat-tree", "--hosts", "9999"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("use 3 tiers or a larger radix"));
  outcome = topo({"convert", file("bad.yaml"), "-o", file("no/such/folder")});
  EXPECT_EQ(outcome.exit_code, 1);
  write("good.yaml", "hosts: 2\n");
  outcome = topo({"convert", file("good.yaml"), "-o", file("no/such/folder")});
  EXPECT_THAT(outcome.err, HasSubstr("cannot write"));
  write("x.topo", "MTS0000 s\n P1 -> MT1 h P1\n");
  EXPECT_THAT(topo({"check", file("x.topo")}).err, HasSubstr("system type 'MTS0000' is not known"));
}

TEST_F(Topo, WrongUsage) {
  struct Row {
    std::vector<std::string> words;
    const char* help;
  };
  const Row rows[] = {{{}, "'softib topo --help'"},
                      {{"generate"}, "'softib topo generate --help'"},
                      {{"generate", "fat-tree"}, "'softib topo generate fat-tree --help'"},
                      {{"generate", "fat-tree", "--hosts", "4", "--speed", "fast"}, "fat-tree --help'"},
                      {{"generate", "superpod", "--generation", "a100", "--units", "1"}, "superpod --help'"},
                      {{"convert", "x", "--to", "dot"}, "'softib topo convert --help'"},
                      {{"draw", "x", "--hosts", "none"}, "'softib topo draw --help'"}};
  for (const Row& row : rows) {
    Outcome outcome = topo(row.words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(row.help));
  }
}

TEST_F(Topo, Draw) {
  write("lab.yaml", "hosts: 2\n");
  Outcome outcome = topo({"draw", file("lab.yaml")});
  EXPECT_THAT(outcome.out, StartsWith("graph \"default\" {\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\"sw0\" -- \"host1\""));
  EXPECT_THAT(outcome.out, EndsWith("}\n"));
}

TEST_F(Topo, SvgIsDotsWork) {
  write("lab.yaml", "hosts: 2\n");
  // A stand-in that says what it was given, so that this runs without Graphviz too.
  write("dot", "#!/bin/sh\necho \"<svg $1>\"\ngrep -c -- --\n");
  ::chmod(file("dot").c_str(), 0755);
  std::string folder = file("dot").substr(0, file("dot").rfind('/'));
  Outcome outcome = shell("PATH=" + folder + ":$PATH \"$SOFTIB\" topo draw --svg " + file("lab.yaml"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "<svg -Tsvg>\n2\n");
  outcome = shell("PATH=/nonexistent exec \"$SOFTIB\" topo draw --svg -o " + file("x.svg") + " " + file("lab.yaml"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err,
            "softib: Graphviz is needed for SVG, and 'dot' is not installed; without --svg its input is written\n");
  EXPECT_EQ(shell("ls " + file("x.svg")).out, "") << "nothing half-done stays";
}

}  // namespace
}  // namespace softib::test
