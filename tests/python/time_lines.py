"""Time lines as Perfetto's protobuf has them, read field by field."""

import struct


def fields(message):
    """Of a protobuf message: numbers and values, in order."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            b = message[at]
            at += 1
            value |= (b & 127) << shift
            shift += 7
            if b < 128:
                return value

    while at < len(message):
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == 0:
            yield number, varint()
        elif kind == 1:
            yield number, struct.unpack("<Q", message[at:at + 8])[0]
            at += 8
        else:
            n = varint()
            yield number, message[at:at + n]
            at += n


def packets(content):
    """Of each packet of a trace its fields, with the texts of names and arguments where their numbers stand."""
    texts = {2: {}, 3: {}, 29: {}}
    for number, packet in fields(content):
        assert number == 1
        d = dict(fields(packet))
        for kind, entry in fields(d.get(12, b"")):
            e = dict(fields(entry))
            assert e[1] not in texts[kind], "a text is written once"
            texts[kind][e[1]] = e[2].decode()
        if 11 in d:
            d[11] = [(k, texts[2][v] if k == 10 else v) for k, v in fields(d[11])]
            d[4] = {(texts[3][a[1]], texts[29][a[17]]) for k, v in d[11] if k == 4 for a in [dict(fields(v))]}
        yield d


def slices_of(content):
    """Track, name, begin, depth of every slice, in the order of their ends."""
    tracks, open_, slices = {}, {}, []
    for d in packets(content):
        if 60 in d:
            t = dict(fields(d[60]))
            tracks[t[1]] = t[2].decode()
            continue
        e = dict(d[11])
        if e[9] == 1:
            open_.setdefault(e[11], []).append((e[10], d[8]))
        elif e[9] == 2:
            name, begin = open_[e[11]].pop()
            slices.append((tracks[e[11]], name, begin, d[8], len(open_[e[11]])))
    assert not any(open_.values())
    return slices


def drawn(path):
    """Names of a trace's slices, and of its tracks."""
    content = path.read_bytes()
    return [name for _, name, *_ in slices_of(content)], [dict(fields(d[60]))[2].decode() for d in packets(content) if 60 in d]
