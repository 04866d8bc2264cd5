"""A reader of what nccl-tests writes, as those that people have for their clusters: from the format alone."""

import re
from collections import namedtuple

Device = namedtuple("Device", "rank group pid host index place name")
Side = namedtuple("Side", "time algbw busbw wrong")  # wrong: None where it says N/A
Row = namedtuple("Row", "size count type op root out_of_place in_place")
Output = namedtuple("Output", "settings devices rows out_of_bounds bandwidth")

SETTINGS = re.compile(r"# nThread (\d+) nGpus (\d+) minBytes (\d+) maxBytes (\d+) step: (\d+)\((bytes|factor)\)"
                      r".* iters: (\d+).* validation: (\d+)")
DEVICE = re.compile(r"#  Rank +(\d+) Group +(\d+) Pid +(\d+) on +(\S+) device +(\d+) \[([^\]]+)\] (.+)")


def read_side(words):
    time, algbw, busbw, wrong = words
    return Side(float(time), float(algbw), float(busbw), None if wrong == "N/A" else int(float(wrong)))


def read_row(line):
    words = line.split()
    if len(words) == 12:  # an operator without a name
        words.insert(3, "")
    if len(words) != 13:
        raise ValueError(f"{len(words)} columns: {line}")
    return Row(int(words[0]), int(words[1]), words[2], words[3], int(words[4]), read_side(words[5:9]),
               read_side(words[9:13]))


def read(text):
    settings, devices, rows, out_of_bounds, bandwidth = None, [], [], None, None
    for line in text.splitlines():
        if found := SETTINGS.match(line):
            settings = found.groups()
        elif found := DEVICE.match(line):
            numbers = [int(word) for word in found.groups()[:3]]
            devices.append(Device(*numbers, found[4], int(found[5]), *found.groups()[5:]))
        elif found := re.match(r"# Out of bounds values : (\d+) (OK|FAILED)$", line):
            out_of_bounds = int(found[1])
        elif found := re.match(r"# Avg bus bandwidth    : (\S+)( OK| FAILED| |)$", line):
            bandwidth = float(found[1])
        elif re.match(r" *\d", line):
            rows.append(read_row(line))
    return Output(settings, devices, rows, out_of_bounds, bandwidth)


# Lines of two clusters, as their owners showed them.
RECORDED = """\
# nThread 1 nGpus 1 minBytes 536870912 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 \
validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   1887 on   worker-1 device  0 [0x8d] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1888 on   worker-1 device  1 [0x91] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
       65536         16384     float     sum      -1    18.95    3.46    6.05       0    18.25    3.59    6.28       0
  4294967296    1073741824     float     sum      -1    10094  425.49  839.16      0    10141  423.54  835.32      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 745.53
#
"""
