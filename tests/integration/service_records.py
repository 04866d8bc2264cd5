#!/usr/bin/env python3
"""Registers services with subnet administration, asks for them and takes them back, through the stock libibumad.

    service_records.py OWN_GUID OTHER_GUID     a row of requests; prints what each is answered
    service_records.py --register GUID NAME    registers one service, for 60 seconds, and stays silent

No stock tool registers services but osmtest, which prints none of the answers.
"""

import ctypes
import os
import struct
import sys

MAD_SIZE = 256
SUBN_ADM, SA_VERSION, SERVICE_RECORD = 3, 2, 0x31
GET, SET, GET_TABLE, DELETE = 0x01, 0x02, 0x12, 0x15
DATA = 56  # where the record lies in a MAD of subnet administration
RECORD_SIZE = 176
WELL_KNOWN_KEY = 1  # SM_Key of opensm and of the built-in manager
ID, GID, PKEY, LEASE, KEY, NAME, DATA8_0, DATA64_1 = (1 << bit for bit in (0, 1, 2, 4, 5, 6, 7, 36))
USUAL = ID | GID | NAME
NO_END = 0xffffffff


class Administration:
    """A registered agent on the first port of the host."""

    def __init__(self):
        self.library = ctypes.CDLL("libibumad.so.3", use_errno=True)
        self.library.umad_get_mad.restype = ctypes.c_void_p
        self.fd = self.check(self.library.umad_open_port(None, 0))
        self.agent = self.check(self.library.umad_register(self.fd, SUBN_ADM, SA_VERSION, 1, None))
        self.transactions = 0
        device = os.listdir("/sys/class/infiniband")[0]
        with open(f"/sys/class/infiniband/{device}/ports/1/sm_lid", encoding="ascii") as file:
            self.lid = int(file.read(), 0)

    @staticmethod
    def check(result):
        if result < 0:
            code = ctypes.get_errno() or -result
            sys.exit(f"service_records.py: umad: {os.strerror(code)}")
        return result

    def ask(self, method, mask, data, key=0):
        """(status, list of records)"""
        self.transactions += 1
        head = struct.pack(">BBBBHHQHHI", 1, SUBN_ADM, SA_VERSION, method, 0, 0, self.transactions, SERVICE_RECORD,
                           0, 0)
        mad = head + bytes(12) + struct.pack(">QHHQ", key, 0, 0, mask) + data
        buffer = ctypes.create_string_buffer(self.library.umad_size() + 16 * MAD_SIZE)
        body = self.library.umad_get_mad(buffer)
        ctypes.memmove(body, mad.ljust(MAD_SIZE, b"\0"), MAD_SIZE)
        self.library.umad_set_addr(buffer, self.lid, 1, 0, 0x80010000)
        self.check(self.library.umad_send(self.fd, self.agent, buffer, MAD_SIZE, 1000, 3))
        length = ctypes.c_int(16 * MAD_SIZE)
        self.check(self.library.umad_recv(self.fd, buffer, ctypes.byref(length), 5000))
        answer = ctypes.string_at(body, length.value)
        status = struct.unpack_from(">H", answer, 4)[0]
        if self.library.umad_status(buffer):
            sys.exit("service_records.py: no answer")
        if status:
            return status, []
        size = 8 * struct.unpack_from(">H", answer, 44)[0]
        if method != GET_TABLE:
            return status, [answer[DATA:DATA + RECORD_SIZE]]
        return status, [answer[at:at + size] for at in range(DATA, len(answer) - size + 1, size)] if size else []


def record(guid, name="one", number=0x1000, pkey=0, lease=0, key=0, data8=0, data64=0):
    return struct.pack(">QQQHHI16s64s", number, 0xfe80 << 48, guid, pkey, 0, lease, struct.pack(">QQ", 0, key),
                       name.encode()) + bytes([data8]) + bytes(47) + struct.pack(">QQ", 0, data64)


def words(one):
    number, _, guid, pkey, _, lease, key, name = struct.unpack_from(">QQQHHI16s64s", one)
    first, last = one[112], struct.unpack_from(">Q", one, RECORD_SIZE - 8)[0]
    ends = "never" if lease == NO_END else "some day"
    return (f"{number:#x} of {guid:#x} pkey {pkey:#x} ends {ends} key {int.from_bytes(key, 'big'):#x} "
            f"{name.rstrip(bytes(1)).decode()} {first} {last:#x}")


def requests(own, other):
    """(what is asked, method, mask, record, SM_Key)"""
    one = record(own, data8=7, data64=0x77, key=0x1234)
    full = record(own, pkey=0xffff, data8=7, data64=0x77, key=0x1234)
    return [
        ("nothing is there", GET, NAME, one, 0),
        ("and no table", GET_TABLE, 0, one, 0),
        ("set by its id only", SET, ID, one, 0),
        ("set", SET, USUAL | KEY | DATA8_0 | DATA64_1 | PKEY, full, 0),
        ("get by name", GET, NAME, one, 0),
        ("get by data", GET, DATA8_0 | DATA64_1, one, 0),
        ("get by other data", GET, DATA8_0, record(own, data8=8), 0),
        ("get by key", GET, KEY, one, 0),
        ("get by another key", GET, KEY, record(own, key=0x1235), 0),
        ("get table with the manager's key", GET_TABLE, NAME, one, WELL_KNOWN_KEY),
        ("set for somebody else", SET, USUAL | PKEY | LEASE, record(other, "two", 0x2000, 0xffff, 60), 0),
        ("get by GID", GET_TABLE, GID, record(other), 0),
        ("set without P_Key", SET, USUAL, record(own, "three", 0x3000), 0),
        ("set with a P_Key that nobody has", SET, USUAL | PKEY, record(own, "four", 0x4000, 0x8123), 0),
        ("set for a port that is not there", SET, USUAL | PKEY, record(0x77, "five", 0x5000, 0xffff), 0),
        ("set again, other data", SET, USUAL | PKEY | DATA8_0, record(own, pkey=0xffff, data8=9), 0),
        ("get what was set again", GET, ID, one, 0),
        ("take back an unknown one", DELETE, ID | GID | PKEY, record(own, number=0x7000, pkey=0xffff), 0),
        ("take back", DELETE, ID | GID | PKEY, record(own, pkey=0xffff), 0),
        ("take back twice", DELETE, ID | GID | PKEY, record(own, pkey=0xffff), 0),
        ("take back somebody else's", DELETE, ID | GID | PKEY, record(other, number=0x2000, pkey=0xffff), 0),
    ]


def main():
    administration = Administration()
    if sys.argv[1] == "--register":
        guid, name = int(sys.argv[2], 0), sys.argv[3]
        status, _ = administration.ask(SET, USUAL | LEASE, record(guid, name, lease=60))
        sys.exit(f"refused: {status:#x}" if status else 0)
    for what, method, mask, data, key in requests(int(sys.argv[1], 0), int(sys.argv[2], 0)):
        status, records = administration.ask(method, mask, data, key)
        print(f"{what}: {status:#x}" + "".join(f"; {words(one)}" for one in sorted(records)))


if __name__ == "__main__":
    main()
