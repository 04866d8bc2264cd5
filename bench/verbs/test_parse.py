"""Parsing and judging, on outputs recorded from perftest 4.5 (over Soft-RoCE) and qperf 0.4.11."""

import tempfile
import unittest
from pathlib import Path

import parse
import report

WRITE_LAT = """\
---------------------------------------------------------------------------------------
                    RDMA_Write Latency Test
 Dual-port       : OFF\t\tDevice         : rxe0
 Number of qps   : 1\t\tTransport type : IB
 TX depth        : 1
 local address: LID 0000 QPN 0x0012 PSN 0xe30ec1 RKey 0x000356 VAddr 0x0055672cd18000
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   \
99% percentile[usec]   99.9% percentile[usec]\x20
 2       200          14.96          146.70       17.90    \t       19.83       \t11.62  \t\t135.96  \t\t146.70\x20
---------------------------------------------------------------------------------------
"""

WRITE_BW = """\
                    RDMA_Write BW Test
 Mtu             : 1024[B]
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      200              42.73              36.55  \t\t   0.000585
---------------------------------------------------------------------------------------
"""

REFUSED = "Number of iterations must be a multiple of post list size\n"


class Parsing(unittest.TestCase):
    def test_latency(self):
        result = parse.perftest_latency(WRITE_LAT)
        self.assertEqual((result.size, result.iterations), (2, 200))
        self.assertAlmostEqual(result.typical, 17.90e-6)
        self.assertAlmostEqual(result.average, 19.83e-6)
        self.assertAlmostEqual(result.p99, 135.96e-6)

    def test_bandwidth(self):
        result = parse.perftest_bandwidth(WRITE_BW)
        self.assertEqual((result.size, result.iterations), (65536, 200))
        self.assertAlmostEqual(result.bytes_per_second, 36.55 * 2**20)
        self.assertAlmostEqual(result.messages_per_second, 585)

    def test_output_without_a_result_is_refused(self):
        for output in ("", REFUSED, WRITE_LAT[:300]):
            with self.assertRaises(parse.ParseError):
                parse.perftest_latency(output)
        for output in ("", REFUSED, WRITE_LAT, WRITE_BW[:120], WRITE_BW.replace("MB/sec", "Gb/sec")):
            with self.assertRaises(parse.ParseError):
                parse.perftest_bandwidth(output)

    def test_qperf(self):
        self.assertAlmostEqual(parse.qperf("tcp_lat:\n    latency  =  31.9 us\n")["latency"], 31.9e-6)
        self.assertAlmostEqual(parse.qperf("tcp_lat:\n    latency  =  37326 ns\n")["latency"], 37326e-9)
        self.assertAlmostEqual(parse.qperf("tcp_bw:\n    bw  =  1.83 GB/sec\n")["bw"], 1.83e9)
        self.assertEqual(parse.qperf("failed to connect\n"), {})
        with self.assertRaises(parse.ParseError):
            parse.qperf("tcp_bw:\n    bw  =  1.83 furlongs\n")


class Judging(unittest.TestCase):
    def series(self, *samples):
        return report.Series("x", "x", [report.Sample(value, floor) for value, floor in samples])

    def test_ratio_is_the_median_of_the_rounds_ratios(self):
        series = self.series((100, 50), (300, 300), (90, 60))
        self.assertAlmostEqual(series.ratio().median, 1.5)
        self.assertAlmostEqual(series.ratio().low, 1.0)
        self.assertAlmostEqual(series.ratio().high, 2.0)

    def test_limits(self):
        at_most = report.Bar("b", report.AT_MOST, 1.5, "")
        at_least = report.Bar("b", report.AT_LEAST, 0.85, "")
        self.assertTrue(at_most.reached(1.5))
        self.assertFalse(at_most.reached(1.51))
        self.assertTrue(at_least.reached(0.85))
        self.assertFalse(at_least.reached(0.84))


class Pages(unittest.TestCase):
    def test_each_bench_replaces_its_own_page(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "performance.md"
            report.put_page(path, "Performance", "# Performance\n\nfirst\n\n## Latency\n\none\n")
            report.put_page(path, "The rest", "# The rest\n\nother\n")
            report.put_page(path, "Performance", "# Performance\n\nsecond\n")
            self.assertEqual(path.read_text(), "# Performance\n\nsecond\n\n# The rest\n\nother\n")
            report.put_page(path, "The rest", "# The rest\n\nnew\n")
            self.assertEqual(path.read_text(), "# Performance\n\nsecond\n\n# The rest\n\nnew\n")


if __name__ == "__main__":
    unittest.main()
