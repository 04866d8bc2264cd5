"""Parsing, ratios, tables and drawings, on recorded outputs and made-up times."""

import os
import unittest
from xml.dom import minidom

import drawing
import results
import rivals
from results import ALLOCATED, DUEL, GLOO, MIB, MPICH, ONE_HOST, OPEN_MPI, TWO_HOSTS, Results, Row

OUTPUT = """\
[host0:4711] a line of the library's own
coll all_reduce out 8 126395 0.000000259 0
coll all_reduce in 1048576 395 0.000125192 0
coll broadcast in 67108864 5 0.013350330 3
"""


def with_times(*given) -> Results:
    """Of (scene, way, collective, placement, size, {round: seconds})."""
    found = Results()
    for scene, way, collective, placement, size, times in given:
        found.scenes.add(scene)
        for number, seconds in times.items():
            found.add(scene, way, number, [Row(collective, placement, size, 1, seconds, 0)])
    return found


def verdict_of(found: Results, ending: str):
    return next(one for one in results.verdicts(found, (16,)) if one.bar.text.endswith(ending))


class Parsing(unittest.TestCase):
    def test_rows(self):
        rows = results.parse_rows(OUTPUT)
        self.assertEqual(rows[0], Row("all_reduce", "out", 8, 126395, 259e-9, 0))
        self.assertEqual([row.wrong for row in rows], [0, 0, 3])

    def test_outputs_without_results(self):
        for output in ("", "mpirun: nothing\n", "coll all_reduce out 8\n", "coll all_reduce out eight 1 0.1 0\n"):
            with self.assertRaises(results.OutputError):
                results.parse_rows(output)

    def test_wrong_elements_are_counted(self):
        found = Results()
        found.add(ONE_HOST, MPICH, 1, results.parse_rows(OUTPUT))
        self.assertEqual(found.wrong, 3)


class Ratios(unittest.TestCase):
    def test_only_rounds_that_have_both(self):
        self.assertEqual(results.round_ratios({1: 4.0, 2: 9.0, 4: 1.0}, {2: 3.0, 3: 1.0, 1: 2.0}), [2.0, 3.0])

    def test_the_best_of_each_round(self):
        self.assertEqual(results.least([{1: 5.0, 2: 1.0}, {1: 4.0}, {}]), {1: 4.0, 2: 1.0})

    def test_bus_bandwidth_is_nccl_tests(self):
        self.assertEqual(results.bus_factor("all_reduce", 2), 1.0)
        self.assertEqual(results.bus_factor("all_reduce", 4), 1.5)
        self.assertEqual(results.bus_factor("all_gather", 4), 0.75)
        self.assertEqual(results.bus_factor("broadcast", 4), 1.0)

    def test_the_hop_is_that_of_the_same_duel(self):
        found = with_times((DUEL, ALLOCATED, "all_reduce", "out", 8, {3: 200e-9, 4: 40e-9}))
        found.add_floor("hop", 3, 100e-9)
        found.add_floor("hop", 4, 20e-9)
        verdict = verdict_of(found, "8 B out of place: time, of the hop between two cores")
        self.assertEqual((round(verdict.measured.low, 9), verdict.word()), (2.0, "reached"))

    def test_bandwidth_beside_the_best_rival(self):
        found = with_times((DUEL, ALLOCATED, "all_reduce", "in", 8, {1: 1.0}),
                           (ONE_HOST, ALLOCATED, "all_reduce", "in", 64 * MIB, {1: 2.0}),
                           (ONE_HOST, ALLOCATED, "copy", "out", 64 * MIB, {1: 1.2}),
                           (ONE_HOST, OPEN_MPI, "all_reduce", "in", 64 * MIB, {1: 12.0}),
                           (ONE_HOST, MPICH, "all_reduce", "in", 64 * MIB, {1: 9.0}))
        verdict = verdict_of(found, "64 MiB in place, memory of allocate(): bandwidth, of the best rival's")
        self.assertEqual((verdict.measured.median, verdict.word()), (4.5, "not reached"))
        verdict = verdict_of(found, "bandwidth, of what memcpy allows")
        self.assertEqual((verdict.measured.median, verdict.word()), (0.6, "not reached"))

    def test_bandwidth_beside_ib_write_bw(self):
        found = with_times((TWO_HOSTS, ALLOCATED, "all_reduce", "in", 16 * MIB, {1: 0.002}),
                           (TWO_HOSTS, GLOO, "all_reduce", "in", 16 * MIB, {1: 0.008}))
        found.add_floor(results.EACH_WAY, 1, 10 * MIB * 1000)
        verdict = verdict_of(found, "16 MiB in place, memory of allocate(): bandwidth, of what ib_write_bw allows")
        self.assertAlmostEqual(verdict.measured.median, 0.8)
        verdict = verdict_of(found, "16 MiB in place, memory of allocate(): bandwidth, of gloo's")
        self.assertEqual(verdict.measured.median, 4)

    def test_a_crowd_counts_by_its_median(self):
        theirs = {64: 9.0, 4096: 2.0, 65536: 0.1}
        found = with_times(*(("16", ALLOCATED, "alltoall", "out", size, {1: 1.0}) for size in theirs),
                           *(("16", OPEN_MPI, "alltoall", "out", size, {1: time}) for size, time in theirs.items()))
        self.assertEqual(verdict_of(found, "yielding, of this engine's").measured.median, 2)

    def test_what_was_not_measured_is_not_reached(self):
        found = with_times((TWO_HOSTS, ALLOCATED, "all_reduce", "out", 8, {1: 1.0}))
        self.assertEqual({verdict.word() for verdict in results.verdicts(found, (16,))}, {"not measured"})
        self.assertEqual(results.verdicts(Results(), (16,)), [])


class Tables(unittest.TestCase):
    def test_times_of_short_ones_and_bandwidths_of_long_ones(self):
        found = with_times((ONE_HOST, MPICH, "all_reduce", "out", 8, {1: 1e-6, 2: 3e-6, 3: 2e-6}),
                           (ONE_HOST, MPICH, "all_reduce", "out", MIB, {1: MIB / 5e9}),
                           (ONE_HOST, GLOO, "all_reduce", "out", 8, {1: 1e-4}))
        rows = results.collective_rows(found, ONE_HOST, {MPICH: "MPICH", GLOO: "gloo", OPEN_MPI: "Open MPI"},
                                       "all_reduce", "out", 2)
        self.assertEqual(rows, [("", "8 B, us", "1 MiB, GB/s"), ("MPICH", "2.00", "5.00"), ("gloo", "100", "-")])

    def test_a_library_that_failed_says_why(self):
        found = with_times((ONE_HOST, MPICH, "all_reduce", "out", 8, {1: 1e-6}))
        found.problems[ONE_HOST, GLOO] = "ended with 1: no route"
        rows = results.collective_rows(found, ONE_HOST, {MPICH: "MPICH", GLOO: "gloo"}, "all_reduce", "out", 2)
        self.assertEqual(rows[2], ("gloo", "ended with 1: no route"))

    def test_nothing_measured_is_no_table(self):
        self.assertEqual(results.collective_rows(Results(), ONE_HOST, {MPICH: "MPICH"}, "alltoall", "out", 2), [])


class Drawings(unittest.TestCase):
    def test_powers_lie_on_the_grid(self):
        axis = drawing.axis_over([8, 1000], 10, 0, 300)
        self.assertEqual((axis.first, axis.last), (0, 3))
        self.assertAlmostEqual(axis.place(10), 100)

    def test_every_curve_that_has_points_is_drawn(self):
        curves = [drawing.Curve("ours & theirs", ((8, 0.2), (1024, 3))), drawing.Curve("absent", ()),
                  drawing.Curve("one", ((8, 5.0),))]
        document = minidom.parseString(drawing.svg("a < b", "us", curves))
        texts = [node.firstChild.data for node in document.getElementsByTagName("text")]
        self.assertIn("ours & theirs", texts)
        self.assertNotIn("absent", texts)
        self.assertIn("1 KiB", texts)
        self.assertEqual(len(document.getElementsByTagName("circle")), 3)

    def test_nothing_to_draw(self):
        minidom.parseString(drawing.svg("title", "us", []))


class Jobs(unittest.TestCase):
    def test_a_rank_that_fails_ends_the_others(self):
        job = rivals.Job([["sleep", "60"], ["sh", "-c", "echo no memory; exit 3"]], {"PATH": "/usr/bin:/bin"}, None)
        with self.assertRaisesRegex(rivals.MeasureError, "ended with 3: no memory"):
            job.run()
        self.assertTrue(all(process.poll() is not None for process in job.processes))

    def test_ranks_are_of_one_session_so_that_they_yield_to_each_other(self):
        output = rivals.Job([["sh", "-c", "ps -o sid= -p $$"]], {"PATH": "/usr/bin:/bin"}, None).run()
        self.assertEqual(int(output), os.getsid(0))

    def test_the_first_one_s_output(self):
        job = rivals.Job([["echo", "first"], ["echo", "second"]], {"PATH": "/usr/bin:/bin"}, None)
        self.assertEqual(job.run(), "first\n")


if __name__ == "__main__":
    unittest.main()
