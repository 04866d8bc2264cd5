#!/usr/bin/env python3
"""What librdmacm makes of rdma_cm's answers where it has to wait for them: names, events that nobody has acknowledged,
channels that are closed early. One line for each question; cm_library.txt is what Linux 6.1 and the library say.

    cm_library.py ADDRESS     of this host's own port
"""

import ctypes
import os
import sys
import threading

LIBRARY = ctypes.CDLL("librdmacm.so.1", use_errno=True)
PS_TCP = 0x0106
NUMERIC_HOST = 2  # RAI_NUMERICHOST
EVENTS = ("ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST", "CONNECT_RESPONSE",
          "CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED", "DISCONNECTED")
SHORT = 0.3  # seconds that show that nothing comes
PORT = 7300


class Event(ctypes.Structure):
    _fields_ = [("id", ctypes.c_void_p), ("listener", ctypes.c_void_p), ("kind", ctypes.c_int),
                ("status", ctypes.c_int)]


class Address(ctypes.Structure):
    _fields_ = [("family", ctypes.c_uint16), ("port", ctypes.c_uint8 * 2), ("ip", ctypes.c_uint8 * 4),
                ("zero", ctypes.c_uint8 * 8)]


class Parameters(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_uint8), ("responders", ctypes.c_uint8),
                ("initiators", ctypes.c_uint8), ("flow", ctypes.c_uint8), ("retries", ctypes.c_uint8),
                ("rnr_retries", ctypes.c_uint8), ("srq", ctypes.c_uint8), ("qpn", ctypes.c_uint32)]


class Hints(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_int), ("rest", ctypes.c_uint8 * 124)]


LIBRARY.rdma_create_event_channel.restype = ctypes.c_void_p


def say(what, answer):
    print(f"{what:66}{answer}", flush=True)


def address(text, port=0):
    return Address(2, (ctypes.c_uint8 * 2)(port >> 8, port & 255), (ctypes.c_uint8 * 4)(*map(int, text.split("."))))


def must(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


class Channel:
    """With the ids that were made on it; nothing is given back unless a case says so."""

    def __init__(self):
        self.pointer = ctypes.c_void_p(LIBRARY.rdma_create_event_channel())
        if not self.pointer:
            raise OSError(ctypes.get_errno(), "no event channel")

    def close(self):
        LIBRARY.rdma_destroy_event_channel(self.pointer)

    def new_id(self):
        made = ctypes.c_void_p()
        must(LIBRARY.rdma_create_id(self.pointer, ctypes.byref(made), None, PS_TCP), "rdma_create_id")
        return made

    def event(self):
        got = ctypes.POINTER(Event)()
        must(LIBRARY.rdma_get_cm_event(self.pointer, ctypes.byref(got)), "rdma_get_cm_event")
        return got

    def fd(self):
        return ctypes.cast(self.pointer, ctypes.POINTER(ctypes.c_int)).contents.value

    def take(self, kind):
        got = self.event()
        name = EVENTS[got.contents.kind]
        if name != kind:
            raise OSError(0, f"{name} {got.contents.status} in place of {kind}")
        made = ctypes.c_void_p(got.contents.id)
        acknowledge(got)
        return made

    def has_events(self):
        os.set_blocking(self.fd(), False)
        got = ctypes.POINTER(Event)()
        found = LIBRARY.rdma_get_cm_event(self.pointer, ctypes.byref(got)) == 0
        why = "" if found else os.strerror(ctypes.get_errno())
        os.set_blocking(self.fd(), True)
        return EVENTS[got.contents.kind] if found else why


def acknowledge(event):
    must(LIBRARY.rdma_ack_cm_event(event), "rdma_ack_cm_event")


def resolve(made, own, port=PORT):
    must(LIBRARY.rdma_resolve_addr(made, None, ctypes.byref(address(own, port)), 2000), "rdma_resolve_addr")


class Destroying(threading.Thread):
    def __init__(self, made):
        super().__init__(daemon=True)
        self.made, self.result = made, None
        self.start()

    def run(self):
        self.result = LIBRARY.rdma_destroy_id(self.made)

    def answer(self, seconds):
        self.join(seconds)
        return "waits" if self.is_alive() else f"returns {self.result}"


# -- the cases


def names(own):
    def ask(name, service, flags):
        found = ctypes.c_void_p()
        hints = Hints(flags)
        return LIBRARY.rdma_getaddrinfo(name, service, ctypes.byref(hints), ctypes.byref(found))

    say("rdma_getaddrinfo of a name where an address is wanted", ask(b"nobody", b"7", NUMERIC_HOST))
    say("rdma_getaddrinfo of a service that is none", ask(own.encode(), b"no-such-service", 0))
    # Too long for anybody to be asked: that takes seconds where nobody answers.
    say("rdma_getaddrinfo of a name that nobody can have", "fails" if ask(b"n" * 300, b"7", 0) != 0 else "finds it")
    say("rdma_getaddrinfo of an address", ask(own.encode(), b"7", NUMERIC_HOST))


def events_that_nobody_acknowledged(own):
    channel = Channel()
    made = channel.new_id()
    resolve(made, own)
    first = channel.event()
    must(LIBRARY.rdma_resolve_route(made, 2000), "rdma_resolve_route")
    second = channel.event()
    destroying = Destroying(made)
    say("rdma_destroy_id, two events not acknowledged", destroying.answer(SHORT))
    acknowledge(second)
    say("one is", destroying.answer(SHORT))
    acknowledge(first)
    say("the other is", destroying.answer(10))
    made = channel.new_id()
    resolve(made, own)
    say("rdma_destroy_id, an event not taken", Destroying(made).answer(10))
    say("the channel then has", channel.has_events())


def meeting(own, port):
    """A listener and a client that has asked; the request is not acknowledged."""
    server, client = Channel(), Channel()
    listener, asking = server.new_id(), client.new_id()
    must(LIBRARY.rdma_bind_addr(listener, ctypes.byref(address(own, port))), "rdma_bind_addr")
    must(LIBRARY.rdma_listen(listener, 1), "rdma_listen")
    resolve(asking, own, port)
    client.take("ADDR_RESOLVED")
    must(LIBRARY.rdma_resolve_route(asking, 2000), "rdma_resolve_route")
    client.take("ROUTE_RESOLVED")
    must(LIBRARY.rdma_connect(asking, ctypes.byref(Parameters(qpn=port, retries=7))), "rdma_connect")
    return server, listener, client, asking, server.event()


def requests_that_nobody_acknowledged(own):
    _server, listener, client, _asking, request = meeting(own, PORT + 1)
    fresh = ctypes.c_void_p(request.contents.id)
    say("rdma_destroy_id of what asks to be connected", Destroying(fresh).answer(10))
    client.take("REJECTED")
    destroying = Destroying(listener)
    say("rdma_destroy_id of its listener, the request not acknowledged", destroying.answer(SHORT))
    acknowledge(request)
    say("it is", destroying.answer(10))


def channels_that_are_closed_early(own):
    server, _listener, client, asking, request = meeting(own, PORT + 2)
    fresh = ctypes.c_void_p(request.contents.id)
    must(LIBRARY.rdma_accept(fresh, ctypes.byref(Parameters(qpn=18))), "rdma_accept")
    client.take("CONNECT_RESPONSE")
    must(LIBRARY.rdma_establish(asking), "rdma_establish")
    acknowledge(request)
    server.take("ESTABLISHED")
    client.close()
    left = server.event()
    say("the client's channel is closed, its id is not: the server has",
        f"{EVENTS[left.contents.kind]} {left.contents.status}")
    _server, _listener, client, asking, _request = meeting(own, PORT + 3)
    _server.close()
    refused = client.event()
    say("the server's channel is closed: who asked has", f"{EVENTS[refused.contents.kind]} {refused.contents.status}")
    acknowledge(refused)
    say("rdma_destroy_id of who asked", Destroying(asking).answer(10))


def main():
    own = sys.argv[1]
    names(own)
    events_that_nobody_acknowledged(own)
    requests_that_nobody_acknowledged(own)
    channels_that_are_closed_early(own)
    return 0


if __name__ == "__main__":
    sys.exit(main())
