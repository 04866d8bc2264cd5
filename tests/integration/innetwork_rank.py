"""A rank for innetwork.py, by softib_coll's interface for C: does what it is told on standard input, a line for each.

    innetwork_rank.py LIBRARY RANKS RANK

SOFTIB_COMM_ID says where rank 0 is. `sum COUNT` adds up floats of all ranks and checks them, `ends` leaves.
"""

import ctypes
import sys

FLOAT, SUM = 7, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Rank:
    def __init__(self, path, ranks, rank):
        self.library = ctypes.CDLL(path)
        self.library.softibGetLastError.restype = ctypes.c_char_p
        self.ranks, self.rank = ranks, rank
        self.comm = ctypes.c_void_p()

    def begin(self):
        identity = UniqueId()
        result = self.library.softibGetUniqueId(ctypes.byref(identity))
        if result == 0:
            result = self.library.softibCommInitRank(ctypes.byref(self.comm), self.ranks, identity, self.rank)
        return "ready" if result == 0 else f"error {self.library.softibGetLastError(None).decode()}"

    def sum(self, count):
        data = (ctypes.c_float * count)(*[self.rank + 1] * count)
        result = self.library.softibAllReduce(data, data, ctypes.c_size_t(count), FLOAT, SUM, self.comm)
        if result != 0:
            return f"error {self.library.softibGetLastError(self.comm).decode()}"
        wanted = self.ranks * (self.ranks + 1) // 2
        return "right" if all(value == wanted for value in data) else "wrong"

    def end(self):
        self.library.softibCommDestroy(self.comm)
        return "left"


def main():
    rank = Rank(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    print(rank.begin(), flush=True)
    for line in sys.stdin:
        words = line.split()
        print(rank.sum(int(words[1])) if words[0] == "sum" else rank.end(), flush=True)
        if words[0] != "sum":
            return


if __name__ == "__main__":
    main()
