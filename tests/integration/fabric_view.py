"""What a fabric's own tools say of it, as data: nodes and cables of ibnetdiscover, forwarding tables of dump_lfts.

`softib topo convert FILE --to ibnetdiscover` says the same of a fabric file, so that both can be compared.
"""

import re
import subprocess

NODE = re.compile(r'^(Switch|Ca)\t(\d+) "([SH])-([0-9a-f]+)"\s+# "(.*)"'
                  r'(?: (?:base|enhanced) port 0 lid (\d+) lmc \d+)?', re.M)
LINK = re.compile(r'^\[(\d+)\](?:\(([0-9a-f]+)\))?\s+"[SH]-([0-9a-f]+)"\[(\d+)\](?:\([0-9a-f]+\))?\s+#(.*)$', re.M)
RATE = re.compile(r"(\d+x)([A-Z]+\d*)\s*$")
OWN_LID = re.compile(r"lid (\d+) lmc")
TABLE = re.compile(r"^Unicast lids \[.*?\] of switch .*? guid 0x([0-9a-f]+)", re.M)
ROW = re.compile(r"^0x([0-9a-f]+) (\d+) :", re.M)


class Node:
    def __init__(self, kind, ports, guid, name):
        self.kind, self.ports, self.guid, self.name = kind, ports, guid, name
        self.lid = None  # of a switch
        self.lids = {}  # of a channel adapter, by port
        self.links = {}  # by port: (guid, port) at the other end
        self.rates = {}  # by port: ("4x", "HDR")


class Discovered:
    """The output of ibnetdiscover."""

    def __init__(self, text):
        self.nodes = {}  # by GUID
        heads = list(NODE.finditer(text))
        for head, following in zip(heads, heads[1:] + [None]):
            kind, ports, _, guid, name, lid = head.groups()
            node = Node(kind, int(ports), int(guid, 16), name)
            node.lid = int(lid) if lid else None
            self._read_links(node, text[head.end():following.start() if following else len(text)])
            self.nodes[node.guid] = node

    @staticmethod
    def _read_links(node, text):
        for link in LINK.finditer(text):
            port, _, far, far_port, rest = link.groups()
            node.links[int(port)] = (int(far, 16), int(far_port))
            rate = RATE.search(rest)
            node.rates[int(port)] = rate.groups() if rate else None
            own = OWN_LID.search(rest)
            if own:
                node.lids[int(port)] = int(own.group(1))

    def switches(self):
        return [node for node in self.nodes.values() if node.kind == "Switch"]

    def adapters(self):
        return [node for node in self.nodes.values() if node.kind == "Ca"]

    def named(self, name):
        return next(node for node in self.nodes.values() if node.name == name)

    def cables(self):
        """Each as the set of its two ends (GUID, port)."""
        return {frozenset(((node.guid, port), far)) for node in self.nodes.values()
                for port, far in node.links.items()}

    def end_ports(self):
        """(GUID, port, LID) of all ports that have LIDs; port 0 of switches."""
        found = [(node.guid, 0, node.lid) for node in self.switches()]
        for node in self.adapters():
            found += [(node.guid, port, lid) for port, lid in node.lids.items()]
        return found

    def differences(self, other):
        """What the two don't have in common, in words; LIDs are not compared."""
        found = []
        for guid in self.nodes.keys() ^ other.nodes.keys():
            found.append(f"node {guid:#x} is in one only")
        for guid in self.nodes.keys() & other.nodes.keys():
            one, two = self.nodes[guid], other.nodes[guid]
            for what in ("kind", "ports", "name", "links", "rates"):
                if getattr(one, what) != getattr(two, what):
                    found.append(f"{one.name}: {what} {getattr(one, what)} and {getattr(two, what)}")
        return found


def of_file(softib, path):
    """What ibnetdiscover should say of a fabric file."""
    command = [softib, "topo", "convert", str(path), "--to", "ibnetdiscover"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Discovered(done.stdout)


def read_tables(text):
    """Output of dump_lfts: port by LID, by GUID of the switch."""
    heads = list(TABLE.finditer(text))
    tables = {}
    for head, following in zip(heads, heads[1:] + [None]):
        part = text[head.end():following.start() if following else len(text)]
        tables[int(head.group(1), 16)] = {int(lid, 16): int(port) for lid, port in ROW.findall(part)}
    return tables


def walk(net, tables, start, lid):
    """Names of the nodes that a packet passes from an end port to a LID, or what stops it. `start` is (GUID, port)."""
    guid, port = start
    names = [net.nodes[guid].name]
    for _ in range(64):
        node = net.nodes[guid]
        if node.kind == "Switch":
            if node.lid == lid:
                return names, None
            port = tables[guid].get(lid)
            if port is None:
                return names, f"{node.name} has no way to LID {lid}"
        elif len(names) > 1:
            return names, None if lid in node.lids.values() else f"arrived at {node.name}, which is not LID {lid}"
        if port not in node.links:
            return names, f"{node.name} has no cable on port {port}"
        guid, port = node.links[port]
        names.append(net.nodes[guid].name)
    return names, f"a loop: {names[-6:]}"


def unreachable(net, tables):
    """All pairs of end ports: those that don't reach each other, with the reason."""
    ends = net.end_ports()
    faults = []
    for guid, port, own in ends:
        for _, _, lid in ends:
            if lid == own:
                continue
            names, fault = walk(net, tables, (guid, port), lid)
            if fault:
                faults.append(f"{names[0]} to LID {lid}: {fault}")
    return faults
