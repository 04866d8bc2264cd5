#!/usr/bin/env python3
"""What test.sh says of a run: its numbers, and why tests failed."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import summary  # noqa: E402

HEADER = "Command: \"{name}\"\nDirectory: /somewhere\n\"{name}\" start time: now\nOutput:\n{line}\n"
LOG = (
    "Start testing: now\n" + "-" * 60 + "\n"
    "1/3 Testing: good_test\n1/3 Test: good_test\n" + HEADER.format(name="good_test", line="-" * 60) +
    "[ RUN      ] A.Runs\n[       OK ] A.Runs (0 ms)\n[  PASSED  ] 1 test.\n<end of output>\n"
    "Test time =   0.01 sec\n" + "-" * 60 + "\nTest Passed.\n\n"
    "2/3 Testing: bad_test\n2/3 Test: bad_test\n" + HEADER.format(name="bad_test", line="-" * 60) +
    "[ RUN      ] B.Long\n[       OK ] B.Long (0 ms)\n"
    "[ RUN      ] B.LongName\nit is 7, not 8\n[  FAILED  ] B.LongName (3 ms)\n"
    "[ RUN      ] B.Later\n" + "chatter\n" * 100 + "[       OK ] B.Later (9 ms)\n"
    "[  PASSED  ] 2 tests.\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] B.LongName\n<end of output>\n"
    "Test time =   0.01 sec\n" + "-" * 60 + "\nTest Failed.\n\n"
    "3/3 Testing: suite\n3/3 Test: suite\n" + HEADER.format(name="suite", line="-" * 60) +
    "ok ping\nnot ok pong: no answer\n1 passed, 1 failed, 2 skipped\n<end of output>\n"
    "Test time =   0.01 sec\n" + "-" * 60 + "\nTest Failed.\n\nEnd testing: now\n"
)


class Summary(unittest.TestCase):
    def test_counts_what_each_test_counted_itself(self):
        counts = [summary.count_section(section) for section in summary.SECTION.findall(LOG)]
        self.assertEqual(counts, [(1, 0, 0), (2, 1, 0), (1, 1, 2)])

    def test_a_test_that_passed_for_what_it_printed_has_passed(self):
        reasons = (("Pass Reason:\nRequired regular expression found.", (1, 0, 0)), ("Fail Reason:\nx", (0, 1, 0)))
        for verdict, counts in reasons:
            text = HEADER.format(name="example", line="usage: example RANKS") + f"<end of output>\nTest {verdict}\n"
            self.assertEqual(summary.count_section(text), counts)

    def test_tells_why_tests_failed_and_nothing_of_those_that_passed(self):
        told = summary.failures(LOG)
        self.assertIn("bad_test:\n  [ RUN      ] B.LongName\n  it is 7, not 8\n", told)
        self.assertIn("suite:\n", told)
        self.assertIn("  not ok pong: no answer\n", told)
        for other in ("chatter", "A.Runs", "B.Later", "B.Long\n"):
            self.assertNotIn(other, told)


if __name__ == "__main__":
    unittest.main()
