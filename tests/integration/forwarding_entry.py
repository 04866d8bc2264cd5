#!/usr/bin/env python3
"""Reads or writes one entry of a switch's linear forwarding table by SMP, through the stock libibumad.

    forwarding_entry.py SWITCH_LID LID [PORT]

Prints the port that LID is forwarded to; with PORT, sets it first (255: nowhere). No stock tool writes tables.
"""

import ctypes
import os
import struct
import sys

MAD_SIZE = 256
SUBN_LID_ROUTED = 1
LINEAR_FORWARDING_TABLE = 0x19
GET, SET = 1, 2
BLOCK = 64
DATA = 64  # where the attribute lies in an SMP


class Umad:
    """A registered agent on the first port of the host."""

    def __init__(self):
        self.library = ctypes.CDLL("libibumad.so.3", use_errno=True)
        self.library.umad_get_mad.restype = ctypes.c_void_p
        self.fd = self.check(self.library.umad_open_port(None, 0))
        self.agent = self.check(self.library.umad_register(self.fd, SUBN_LID_ROUTED, 1, 0, None))
        self.transactions = 0

    @staticmethod
    def check(result):
        if result < 0:
            code = ctypes.get_errno() or -result
            sys.exit(f"forwarding_entry.py: umad: {os.strerror(code)}")
        return result

    def ask(self, lid, method, modifier, data=bytes(BLOCK)):
        self.transactions += 1
        head = struct.pack(">BBBBHHQHHI", 1, SUBN_LID_ROUTED, 1, method, 0, 0, self.transactions,
                           LINEAR_FORWARDING_TABLE, 0, modifier)
        mad = head.ljust(DATA, b"\0") + data
        buffer = ctypes.create_string_buffer(self.library.umad_size() + MAD_SIZE)
        body = self.library.umad_get_mad(buffer)
        ctypes.memmove(body, mad.ljust(MAD_SIZE, b"\0"), MAD_SIZE)
        self.library.umad_set_addr(buffer, lid, 0, 0, 0)
        self.check(self.library.umad_send(self.fd, self.agent, buffer, MAD_SIZE, 1000, 3))
        length = ctypes.c_int(MAD_SIZE)
        self.check(self.library.umad_recv(self.fd, buffer, ctypes.byref(length), 5000))
        answer = ctypes.string_at(body, MAD_SIZE)
        status = struct.unpack_from(">H", answer, 4)[0]
        if self.library.umad_status(buffer) or status:
            sys.exit(f"forwarding_entry.py: LID {lid} does not answer, or refuses (status {status:#x})")
        return answer[DATA:DATA + BLOCK]


def main():
    switch, lid = int(sys.argv[1], 0), int(sys.argv[2], 0)
    umad = Umad()
    block = bytearray(umad.ask(switch, GET, lid // BLOCK))
    if len(sys.argv) > 3:
        block[lid % BLOCK] = int(sys.argv[3], 0)
        block = umad.ask(switch, SET, lid // BLOCK, bytes(block))
    print(block[lid % BLOCK])


if __name__ == "__main__":
    main()
