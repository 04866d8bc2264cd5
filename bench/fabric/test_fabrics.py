"""Parsing, on recorded outputs."""

import unittest

import fabrics

DUMP = """\
#
# Topology file: generated on Sun Nov 29 17:51:38 2026
#
vendid=0x2c9
switchguid=0x525400fffe800020(525400fffe800020)
Switch\t8 "S-525400fffe800020"\t\t# "leaf2" base port 0 lid 3 lmc 0
[1]\t"H-525400fffe000081"[1](525400fffe000082) \t\t# "host4 mlx5_0" lid 14 4xEDR

caguid=0x525400fffe000081
Ca\t1 "H-525400fffe000081"\t\t# "host4 mlx5_0"
[1](525400fffe000082) \t"S-525400fffe800020"[1]\t\t# lid 14 lmc 0 "leaf2" lid 3 4xEDR
"""

STATUS = "Name:\tsoftibd\nVmRSS:\t   35000 kB\nRssAnon:\t   28476 kB\nRssFile:\t    5620 kB\nRssShmem:\t     904 kB\n"


class Parsing(unittest.TestCase):
    def test_nodes_of_a_dump(self):
        self.assertEqual(fabrics.count_nodes(DUMP), 2)
        self.assertEqual(fabrics.count_nodes(""), 0)

    def test_round_trip(self):
        self.assertEqual(fabrics.parse_round_trip("median 8.25 p99 20.10\n"), 8.25)
        for output in ("", "median - p99 -\n", "bench_round_trip: no answer: Connection timed out\n"):
            with self.assertRaises(fabrics.MeasureError):
                fabrics.parse_round_trip(output)

    def test_memory_counts_shared_pages_in_one_place_only(self):
        self.assertEqual(fabrics.memory_of(STATUS), (28476 + 5620) << 10)


if __name__ == "__main__":
    unittest.main()
