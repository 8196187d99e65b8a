-- SPDX-License-Identifier: BSD-3-Clause
-- Wireshark's dissector of datagram-iWARP over UDP (not of RC streams, which Wireshark knows as iWARP).
-- Follows common/wire/WIRE.md, whose sections it names. Knows nothing of what a process makes of a
-- datagram: windows, tokens and STags are shown, not judged.
--
-- For Lua 5.2 (Wireshark 4.0) and 5.4 (4.4): no operators on bits, which the one does not have, and no
-- library for them, which the other does not have.
local diwarp = Proto("diwarp", "datagram-iWARP (diwarp)")

local VERSION = 2
local HEADER_BYTES, INTRO_BYTES, CRC_BYTES, TAG_BYTES = 60, 32, 4, 16
local MTU_MIN_BYTES = 576
local FLOWS_MAX = 8
local SEGMENTS_SHOWN = 8 -- in the info column

local TYPES = {[0] = "UD", "DATA", "RECORD", "ACK", "PROBE", "PROBE_REPLY", "RESET", "PROOF"}
local UD, DATA, RECORD, PROBE, RESET, PROOF = 0, 1, 2, 4, 6, 7
-- Bytes between header (or intro) and trailer of those without segments; a PROBE has any.
local BODY_BYTES = {[3] = 0, [5] = 0, [RESET] = 16, [PROOF] = 8}
local HAS_PSN = {[DATA] = true, [PROBE] = true, [5] = true, [PROOF] = true}

local STATUSES = {[0] = "OK", "BAD_STAG", "NO_RESOURCE", "CANCELLED", "WITHDRAWN"}
local OPEN, STATUS, COMPLETE, ABORT = 1, 2, 3, 4
local CONTROLS = {[OPEN] = "OPEN", [STATUS] = "STATUS", [COMPLETE] = "COMPLETE", [ABORT] = "ABORT"}

-- Section 4: name; queue of untagged ones; whether the field `ulp` has a use.
local OPCODES = {
    [0x0] = {"Write"},
    [0x1] = {"Read Request", 1},
    [0x2] = {"Read Response"},
    [0x3] = {"Send", 0},
    [0x4] = {"Send with Invalidate", 0, true},
    [0x5] = {"Send with SE", 0},
    [0x6] = {"Send with SE and Invalidate", 0, true},
    [0x7] = {"Terminate", 2},
    [0x8] = {"Immediate Data", 0},
    [0x9] = {"Immediate Data with SE", 0},
    [0xA] = {"Atomic Request", 1},
    [0xB] = {"Atomic Response", 3},
    [0xC] = {"Write-Record"},
    [0xD] = {"Send with Immediate", 0, true},
    [0xF] = {"Send with Immediate and SE", 0, true},
    [0xE] = {"Record Control", 4},
}
local READ_REQUEST, ATOMIC_REQUEST, ATOMIC_RESPONSE = 0x1, 0xA, 0xB
local WRITE_RECORD, SEND_IMMEDIATE, RECORD_CONTROL = 0xC, 0xD, 0xE

-- ---- fields ------------------------------------------------------------------------------------

local f = {}

local function field(kind, name, title, ...)
    local made = ProtoField[kind]("diwarp." .. name, title, ...)
    f[name] = made
end

local function names_of(list)
    local names = {}
    for value, entry in pairs(list) do
        names[value] = type(entry) == "table" and entry[1] or entry
    end
    return names
end

field("uint8", "version", "Version", base.DEC, nil, 0xf0)
field("uint8", "type", "Type", base.DEC, TYPES, 0x0f)
field("uint8", "flags", "Flags", base.HEX)
field("bool", "flags.ack_request", "Acknowledge at once", 8, nil, 0x01)
field("bool", "flags.intro", "Intro block follows", 8, nil, 0x02)
field("bool", "flags.no_crc", "No CRC", 8, nil, 0x04)
field("bool", "flags.refusing", "Refusing", 8, nil, 0x08)
field("bool", "flags.goes_on", "Goes on", 8, nil, 0x10)
field("uint8", "flags.sealed", "Sealed", base.HEX, nil, 0xe0)
field("uint16", "credit", "Credit (KiB)", base.DEC)
field("uint32", "incarnation", "Incarnation of the source", base.HEX)
field("uint64", "token", "Token of the destination", base.HEX)
field("uint32", "job", "Source job", base.DEC)
field("uint32", "rank", "Source rank", base.DEC)
field("uint64", "number", "Number of the datagram", base.DEC)
field("uint8", "path", "Path", base.DEC)
field("uint24", "dst_qpn", "Destination QPN", base.DEC, { [0xffffff] = "all of a group" })
field("uint8", "ecn_echo", "ECN echo", base.DEC)
field("uint24", "src_qpn", "Source QPN", base.DEC)
field("uint32", "psn", "PSN", base.DEC)
field("uint32", "ack", "Ack", base.DEC)
field("uint64", "sack", "SACK", base.HEX)
field("uint16", "timestamp", "Timestamp (1024 ns)", base.DEC)
field("uint16", "timestamp_echo", "Timestamp echo", base.DEC)

field("none", "intro", "Intro block")
field("uint64", "intro.token", "Token of the source", base.HEX)
field("uint8", "intro.family", "Family", base.DEC, {[4] = "IPv4", [6] = "IPv6"})
field("uint8", "intro.flow", "Flow", base.DEC)
field("uint16", "intro.port", "UDP port", base.DEC)
field("uint16", "intro.mtu", "MTU", base.DEC)
field("ipv4", "intro.ipv4", "Address")
field("ipv6", "intro.ipv6", "Address")

field("none", "segment", "Segment")
field("uint16", "segment.length", "Segment length", base.DEC)
field("bytes", "padding", "Padding")
field("bool", "tagged", "Tagged", 8, nil, 0x80)
field("bool", "last", "Last segment of its message", 8, nil, 0x40)
field("uint8", "ddp_reserved", "Reserved", base.HEX, nil, 0x3c)
field("uint8", "ddp_version", "DDP version", base.DEC, nil, 0x03)
field("uint8", "rdmap_version", "RDMAP version", base.DEC, nil, 0xc0)
field("uint8", "rdmap_reserved", "Reserved", base.HEX, nil, 0x30)
field("uint8", "opcode", "Opcode", base.HEX, names_of(OPCODES), 0x0f)
field("uint32", "stag", "STag", base.HEX)
field("uint64", "to", "Tagged offset", base.HEX)
field("uint32", "ulp", "ULP field", base.HEX)
field("uint32", "qn", "Queue number", base.DEC)
field("uint32", "msn", "Message sequence number", base.DEC)
field("uint32", "mo", "Message offset", base.DEC)
field("bytes", "data", "Data")

field("uint32", "record.id", "Record id", base.HEX)
field("uint32", "record.offset", "Offset in the message", base.DEC)
field("uint32", "record.total", "Length of the message", base.DEC)
field("uint8", "control.kind", "Kind", base.DEC, CONTROLS)
field("uint8", "status", "Status", base.DEC, STATUSES)
field("uint16", "control.ranges", "Count of ranges", base.DEC)
field("uint32", "control.granted", "Granted", base.DEC)
field("uint32", "control.start", "Missing from", base.DEC)
field("uint32", "control.end", "Missing up to", base.DEC)
field("uint32", "read.sink_stag", "Sink STag", base.HEX)
field("uint64", "read.sink_to", "Sink tagged offset", base.HEX)
field("uint32", "read.size", "Size", base.DEC)
field("uint32", "read.source_stag", "Source STag", base.HEX)
field("uint64", "read.source_to", "Source tagged offset", base.HEX)
field("uint32", "atomic.opcode", "Atomic opcode", base.DEC, {[0] = "FetchAdd", [2] = "CmpSwap"})
field("uint32", "atomic.request", "Request id", base.DEC)
field("uint64", "atomic.data", "Add or swap data", base.HEX)
field("uint64", "atomic.mask", "Add or swap mask", base.HEX)
field("uint64", "atomic.compare", "Compare data", base.HEX)
field("uint64", "atomic.compare_mask", "Compare mask", base.HEX)
field("uint64", "atomic.original", "Original value", base.HEX)

field("uint64", "reset.number", "Number of the datagram it answers", base.DEC)
field("uint64", "cookie", "Cookie", base.HEX)
field("bytes", "sealed", "Sealed")
field("bytes", "tag", "Tag")
field("uint32", "crc", "CRC32C", base.HEX)
field("string", "crc.status", "CRC32C status")

do
    local all = {}
    for _, made in pairs(f) do
        all[#all + 1] = made
    end
    diwarp.fields = all
end

local malformed = ProtoExpert.new("diwarp.malformed", "Malformed", expert.group.MALFORMED,
    expert.severity.ERROR)
local crc_wrong = ProtoExpert.new("diwarp.crc.wrong", "CRC32C wrong", expert.group.CHECKSUM,
    expert.severity.ERROR)
local crc_none = ProtoExpert.new("diwarp.crc.none", "No CRC32C", expert.group.CHECKSUM,
    expert.severity.NOTE)
diwarp.experts = {malformed, crc_wrong, crc_none}

diwarp.prefs.check_crc = Pref.bool("Check the CRC32C", true,
    "Datagrams are told from others by it, and what is damaged is shown; it takes time")

-- ---- CRC32C (section 6) ------------------------------------------------------------------------

-- Exclusive or of two bytes, and of two words byte by byte.
local byte_xor = {}
for a = 0, 255 do
    byte_xor[a] = {}
    for b = 0, 255 do
        local sum, bit, x, y = 0, 1, a, b
        while x > 0 or y > 0 do
            if x % 2 ~= y % 2 then
                sum = sum + bit
            end
            x, y, bit = (x - x % 2) / 2, (y - y % 2) / 2, bit * 2
        end
        byte_xor[a][b] = sum
    end
end

-- For each byte the four bytes of its word, the least significant one first.
local crc_bytes = {{}, {}, {}, {}}
for n = 0, 255 do
    local word = {n, 0, 0, 0}
    for _ = 1, 8 do
        local odd = word[1] % 2 == 1
        local value = ((word[4] * 256 + word[3]) * 256 + word[2]) * 256 + word[1]
        value = (value - value % 2) / 2
        for i = 1, 4 do
            word[i] = value % 256
            value = (value - value % 256) / 256
            if odd then
                word[i] = byte_xor[word[i]][({0x78, 0x3B, 0xF6, 0x82})[i]]
            end
        end
    end
    for i = 1, 4 do
        crc_bytes[i][n] = word[i]
    end
end

local function crc32c(text)
    local t1, t2, t3, t4 = crc_bytes[1], crc_bytes[2], crc_bytes[3], crc_bytes[4]
    local xor, byte = byte_xor, string.byte
    local a, b, c, d = 255, 255, 255, 255
    for i = 1, #text do
        local n = xor[a][byte(text, i)]
        a, b, c, d = xor[b][t1[n]], xor[c][t2[n]], xor[d][t3[n]], t4[n]
    end
    return (((255 - d) * 256 + 255 - c) * 256 + 255 - b) * 256 + 255 - a
end

-- "good", "bad", "none" (NO_CRC), "unknown" (cut by the capture, sealed, or not to be looked at).
local function crc_status(tvb, header)
    if header.sealed or tvb:len() < tvb:reported_len() then
        return "unknown"
    elseif header.no_crc then
        return "none"
    elseif not diwarp.prefs.check_crc then
        return "unknown"
    end
    local at = tvb:len() - CRC_BYTES
    return crc32c(tvb:raw(0, at)) == tvb(at, CRC_BYTES):uint() and "good" or "bad"
end

-- ---- reading, without showing ------------------------------------------------------------------

local function zero(tvb, from, count)
    return not tvb:raw(from, count):find("[^%z]")
end

local function flag(flags, value)
    return flags % (2 * value) >= value
end

-- Sections 2 and 7: the header; and what is wrong with it, or nil.
local function read_header(tvb)
    local flags = tvb(1, 1):uint()
    local h = {
        type = tvb(0, 1):uint() % 16, flags = flags, psn = tvb(40, 4):uint(),
        ack = tvb(44, 4):uint(),
        intro = flag(flags, 0x02), no_crc = flag(flags, 0x04), sealed = flags >= 0x20,
    }
    h.trailer = h.sealed and TAG_BYTES or CRC_BYTES
    local wrong
    if tvb(0, 1):uint() >= (VERSION + 1) * 16 or tvb(0, 1):uint() < VERSION * 16 then
        wrong = "another wire version"
    elseif not TYPES[h.type] then
        wrong = "unknown type"
    elseif h.type == UD and not (zero(tvb, 2, 2) and zero(tvb, 44, 12) and not flag(flags, 0x08)) then
        wrong = "fields that UD does not have"
    elseif flag(flags, 0x10) and (not h.intro or h.type == UD) then
        wrong = "GOES_ON without an intro, or on UD"
    elseif tvb:reported_len() < HEADER_BYTES + h.trailer + (h.intro and INTRO_BYTES or 0) then
        wrong = "shorter than its headers"
    end
    return h, wrong
end

-- Section 3.
local function of_a_host(tvb, at, family)
    local first = tvb(at, 1):uint()
    if family == 6 then
        return first ~= 0xff and not zero(tvb, at, 16)
    end
    return first ~= 0 and first < 224
end

local function intro_wrong(tvb, at)
    local family = tvb(at + 8, 1):uint()
    if family ~= 4 and family ~= 6 then
        return "family of an intro"
    elseif tvb(at + 9, 1):uint() >= FLOWS_MAX then
        return "flow of an intro"
    elseif not zero(tvb, at + 14, 2) or
        (family == 4 and not zero(tvb, at + 20, 12)) then
        return "reserved bits of an intro"
    elseif tvb(at + 10, 2):uint() == 0 or tvb(at + 12, 2):uint() < MTU_MIN_BYTES then
        return "port or MTU of an intro"
    elseif not of_a_host(tvb, at + 16, family) then
        return "address of an intro"
    end
end

local function control_wrong(tvb, at, len, kind)
    local ranges = tvb(at + 2, 2):uint()
    local from_source = tvb(at + 4, 1):uint() >= 0x80
    if not CONTROLS[kind] or not STATUSES[tvb(at + 1, 1):uint()] then
        return "kind or status of record control"
    elseif ranges ~= 0 and kind ~= STATUS or ranges > 32 then
        return "count of ranges"
    elseif kind == OPEN and not from_source then
        return "record id of an OPEN"
    elseif kind == COMPLETE and len > 8 + 128 or kind == OPEN and len ~= 24 or kind == ABORT and len ~= 8 or
        kind == STATUS and len ~= 12 + 8 * ranges then
        return "length of record control"
    end
    local floor = 0
    for i = 0, ranges - 1 do
        local first, past = tvb(at + 12 + 8 * i, 4):uint(), tvb(at + 16 + 8 * i, 4):uint()
        if first < floor or past <= first then
            return "ranges of a STATUS"
        end
        floor = past
    end
end

-- Section 5: what leads the data of a segment; its least length, and further conditions.
local PAYLOADS = {
    [READ_REQUEST] = {36, function(tvb, at)
        return tvb(at + 28, 1):uint() >= 0x80 and "record id of a Read Request" or nil
    end},
    [ATOMIC_REQUEST] = {52, function(tvb, at)
        local code = tvb(at, 4):uint()
        return code ~= 0 and code ~= 2 and "atomic opcode" or nil
    end},
    [ATOMIC_RESPONSE] = {16, function(tvb, at)
        return not STATUSES[tvb(at + 12, 4):uint()] and "status of an Atomic Response" or nil
    end},
    [WRITE_RECORD] = {12, function(tvb, at, len)
        local offset, total = tvb(at + 4, 4):uint(), tvb(at + 8, 4):uint()
        return offset + len - 12 > total and "beyond the end of its record" or nil
    end},
    [RECORD_CONTROL] = {8, function(tvb, at, len)
        return control_wrong(tvb, at, len, tvb(at, 1):uint())
    end},
}

-- Section 4: a segment whose length field is at `at`; what is wrong with it, or nil.
local function read_segment(tvb, at, len)
    local s = {at = at, len = len, body = at + 2}
    if len < 14 then
        return s, "segment shorter than its header"
    end
    local first, second = tvb(s.body, 1):uint(), tvb(s.body + 1, 1):uint()
    s.tagged, s.last, s.opcode = first >= 0x80, flag(first, 0x40), second % 16
    s.header = s.tagged and 14 or 18
    s.payload, s.bytes = s.body + s.header, len - s.header
    local rule = OPCODES[s.opcode]
    s.name = rule and rule[1] or string.format("opcode 0x%x", s.opcode)
    if s.bytes < 0 then
        return s, "segment shorter than its header"
    elseif first % 64 ~= 1 or second - second % 16 ~= 0x40 then
        return s, "DDP or RDMAP version, or reserved bits"
    elseif not rule or s.tagged ~= (rule[2] == nil) then
        return s, "opcode " .. s.name
    elseif not s.tagged and (tvb(s.body + 6, 4):uint() ~= rule[2] or
        not rule[3] and tvb(s.body + 2, 4):uint() ~= 0) then
        return s, "queue or ULP field"
    end
    local lead = PAYLOADS[s.opcode]
    if lead then
        if s.bytes < lead[1] then
            return s, "payload shorter than its headers"
        end
        local wrong = lead[2](tvb, s.payload, s.bytes)
        s.whole = not wrong
        return s, wrong
    end
    return s
end

-- Section 1: all segments in [at, stop), and what is wrong with the last of them, or behind it.
local function read_segments(tvb, at, stop)
    local list = {}
    while at < stop do
        local pad = (HEADER_BYTES - at) % 8
        if at + pad + 2 > stop or not zero(tvb, at, pad) then
            return list, "padding, or bytes behind the last segment", at
        end
        local len = tvb(at + pad, 2):uint()
        if len > stop - at - pad - 2 then
            return list, "segment longer than its datagram", at + pad
        end
        local segment, wrong = read_segment(tvb, at + pad, len)
        segment.pad_at, segment.pad = at, pad
        list[#list + 1] = segment
        if wrong then
            return list, wrong, at + pad
        end
        at = at + pad + 2 + len
    end
    return list
end

-- ---- showing -----------------------------------------------------------------------------------

local function add_all(tree, tvb, at, list)
    for _, entry in ipairs(list) do
        tree:add(f[entry[1]], tvb(at + entry[2], entry[3]))
    end
end

local HEADER_FIELDS = {
    {"credit", 2, 2}, {"incarnation", 4, 4}, {"token", 8, 8}, {"job", 16, 4}, {"rank", 20, 4},
    {"number", 24, 8}, {"path", 32, 1}, {"dst_qpn", 33, 3}, {"ecn_echo", 36, 1},
    {"src_qpn", 37, 3}, {"psn", 40, 4}, {"ack", 44, 4}, {"sack", 48, 8}, {"timestamp", 56, 2},
    {"timestamp_echo", 58, 2},
}
local FLAGS = {"flags.ack_request", "flags.intro", "flags.no_crc", "flags.refusing",
    "flags.goes_on", "flags.sealed"}

local function show_header(tree, tvb)
    tree:add(f.version, tvb(0, 1))
    tree:add(f.type, tvb(0, 1))
    local flags = tree:add(f.flags, tvb(1, 1))
    for _, name in ipairs(FLAGS) do
        flags:add(f[name], tvb(1, 1))
    end
    add_all(tree, tvb, 0, HEADER_FIELDS)
end

local function show_intro(tree, tvb, at)
    local intro = tree:add(f.intro, tvb(at, INTRO_BYTES))
    add_all(intro, tvb, at, {{"intro.token", 0, 8}, {"intro.family", 8, 1}, {"intro.flow", 9, 1},
        {"intro.port", 10, 2}, {"intro.mtu", 12, 2}})
    if tvb(at + 8, 1):uint() == 6 then
        intro:add(f["intro.ipv6"], tvb(at + 16, 16))
    else
        intro:add(f["intro.ipv4"], tvb(at + 16, 4))
    end
end

local PAYLOAD_FIELDS = {
    [WRITE_RECORD] = {{"record.id", 0, 4}, {"record.offset", 4, 4}, {"record.total", 8, 4}},
    [READ_REQUEST] = {{"read.sink_stag", 0, 4}, {"read.sink_to", 4, 8}, {"read.size", 12, 4},
        {"read.source_stag", 16, 4}, {"read.source_to", 20, 8}, {"record.id", 28, 4},
        {"control.granted", 32, 4}},
    [ATOMIC_REQUEST] = {{"atomic.opcode", 0, 4}, {"atomic.request", 4, 4}, {"stag", 8, 4},
        {"to", 12, 8}, {"atomic.data", 20, 8}, {"atomic.mask", 28, 8}, {"atomic.compare", 36, 8},
        {"atomic.compare_mask", 44, 8}},
    [ATOMIC_RESPONSE] = {{"atomic.request", 0, 4}, {"atomic.original", 4, 8}, {"status", 15, 1}},
    [RECORD_CONTROL] = {{"control.kind", 0, 1}, {"status", 1, 1}, {"control.ranges", 2, 2},
        {"record.id", 4, 4}},
}

local function show_control(tree, tvb, s)
    local kind = tvb(s.payload, 1):uint()
    local body = s.payload + 8
    if kind == OPEN then
        add_all(tree, tvb, body, {{"stag", 0, 4}, {"to", 4, 8}, {"record.total", 12, 4}})
    elseif kind == STATUS then
        tree:add(f["control.granted"], tvb(body, 4))
        for at = body + 4, s.payload + s.bytes - 8, 8 do
            add_all(tree, tvb, at, {{"control.start", 0, 4}, {"control.end", 4, 4}})
        end
    elseif kind == COMPLETE and s.bytes > 8 then
        tree:add(f.data, tvb(body, s.bytes - 8))
    end
end

-- What the info column says of a segment.
local function title_of(tvb, s)
    local function word(at)
        return tvb(s.payload + at, 4):uint()
    end
    if s.opcode == WRITE_RECORD and s.whole then
        return string.format("Write-Record %x %d B at %d of %d", word(0), s.bytes - 12, word(4), word(8))
    elseif s.opcode == READ_REQUEST and s.whole then
        return string.format("Read Request %x %d B", word(28), word(12))
    elseif s.opcode == ATOMIC_REQUEST and s.whole then
        return string.format("%s %d", word(0) == 0 and "FetchAdd" or "CmpSwap", word(4))
    elseif s.opcode == ATOMIC_RESPONSE and s.whole then
        return string.format("Atomic Response %d %s", word(0), STATUSES[word(12)])
    elseif s.opcode == RECORD_CONTROL and s.whole then
        local kind, title = tvb(s.payload, 1):uint()
        title = string.format("%s %x", CONTROLS[kind], word(4))
        if kind == STATUS then
            title = string.format("%s granted %d, %d missing", title, word(8), tvb(s.payload + 2, 2):uint())
        elseif kind == ABORT then
            title = title .. " " .. STATUSES[tvb(s.payload + 1, 1):uint()]
        end
        return title
    end
    return string.format("%s %d B", s.name, s.bytes or s.len)
end

local function show_segment(tree, tvb, s)
    if s.pad > 0 then
        tree:add(f.padding, tvb(s.pad_at, s.pad))
    end
    local item = tree:add(f.segment, tvb(s.at, 2 + s.len))
    s.title = s.name and title_of(tvb, s) or string.format("%d B", s.len)
    item:append_text(": " .. s.title)
    item:add(f["segment.length"], tvb(s.at, 2))
    if not s.bytes or s.bytes < 0 then
        return item
    end
    for _, name in ipairs({"tagged", "last", "ddp_reserved", "ddp_version"}) do
        item:add(f[name], tvb(s.body, 1))
    end
    for _, name in ipairs({"rdmap_version", "rdmap_reserved", "opcode"}) do
        item:add(f[name], tvb(s.body + 1, 1))
    end
    add_all(item, tvb, s.body, s.tagged and {{"stag", 2, 4}, {"to", 6, 8}} or
        {{"ulp", 2, 4}, {"qn", 6, 4}, {"msn", 10, 4}, {"mo", 14, 4}})
    local lead = s.whole and PAYLOADS[s.opcode][1] or 0
    if s.whole then
        add_all(item, tvb, s.payload, PAYLOAD_FIELDS[s.opcode])
    end
    if s.whole and s.opcode == RECORD_CONTROL then
        show_control(item, tvb, s)
    elseif s.bytes > lead then
        item:add(f.data, tvb(s.payload + lead, s.bytes - lead))
    end
    return item
end

-- The body of those without segments; what is wrong with its length, or nil.
local function show_body(tree, tvb, h, at, stop)
    if h.type == PROBE then
        if stop > at then
            tree:add(f.padding, tvb(at, stop - at))
        end
        return
    elseif stop - at ~= BODY_BYTES[h.type] then
        return "length of its type"
    elseif h.type == RESET then
        tree:add(f["reset.number"], tvb(at, 8))
        tree:add(f.cookie, tvb(at + 8, 8))
    elseif h.type == PROOF then
        if not h.intro then
            return "PROOF without an intro"
        end
        tree:add(f.cookie, tvb(at, 8))
    end
end

local function complain(tree, tvb, at, text)
    tree:add_tvb_expert_info(malformed, tvb(at, math.min(1, tvb:len() - at)), "Malformed: " .. text)
end

-- What is between intro and trailer; returns titles for the info column.
local function show_rest(tree, tvb, h, at, stop)
    if h.type > RECORD then
        local wrong = show_body(tree, tvb, h, at, stop)
        if wrong then
            complain(tree, tvb, 0, wrong)
        end
        return {}, wrong
    end
    local list, wrong, where = read_segments(tvb, at, stop)
    local titles = {}
    for _, segment in ipairs(list) do
        show_segment(tree, tvb, segment)
        if #titles < SEGMENTS_SHOWN then
            titles[#titles + 1] = segment.title
        end
    end
    if #list > #titles then
        titles[#titles + 1] = string.format("%d more", #list - #titles)
    end
    if wrong then
        complain(tree, tvb, where, wrong)
    end
    return titles, wrong
end

-- Whether what is sealed lies open: then it is authenticated only, and is read like any other.
local function reads_well(tvb, h, at, stop)
    if h.type > RECORD then
        return h.type == PROBE or stop - at == BODY_BYTES[h.type]
    end
    local _, wrong = read_segments(tvb, at, stop)
    return not wrong and stop > at
end

local function show_trailer(tree, tvb, h, stop, status)
    if h.sealed then
        tree:add(f.tag, tvb(stop, TAG_BYTES))
        return
    end
    local item = tree:add(f.crc, tvb(stop, CRC_BYTES))
    item:append_text(" [" .. status .. "]")
    item:add(f["crc.status"], status):set_generated()
    if status == "bad" then
        item:add_proto_expert_info(crc_wrong)
    elseif status == "none" then
        item:add_proto_expert_info(crc_none)
    end
end

local function info_of(h, status, titles, wrong)
    local words = {TYPES[h.type]}
    if HAS_PSN[h.type] then
        words[#words + 1] = string.format("psn %d", h.psn)
    end
    if h.type ~= UD and h.type ~= RESET then
        words[#words + 1] = string.format("ack %d", h.ack)
    end
    if h.intro then
        words[#words + 1] = "intro"
    end
    if flag(h.flags, 0x01) then
        words[#words + 1] = "ack-request"
    end
    if flag(h.flags, 0x08) then
        words[#words + 1] = "refusing"
    end
    if h.sealed then
        words[#words + 1] = "sealed"
    end
    if #titles > 0 then
        words[#words + 1] = "[" .. table.concat(titles, ", ") .. "]"
    end
    if status == "bad" then
        words[#words + 1] = "[CRC32C wrong]"
    end
    if wrong then
        words[#words + 1] = "[malformed: " .. wrong .. "]"
    end
    return table.concat(words, " ")
end

-- A datagram that the capture has cut ends where it was cut.
local function show_datagram(tree, tvb, h)
    local at, stop = HEADER_BYTES, tvb:reported_len() - h.trailer
    local status = crc_status(tvb, h)
    local titles, wrong = {}, nil
    show_header(tree, tvb)
    if tvb:len() < tvb:reported_len() then
        return info_of(h, status, {"cut by the capture"})
    end
    if h.intro then
        wrong = intro_wrong(tvb, at)
        if not (wrong and h.sealed) then
            show_intro(tree, tvb, at)
            at = at + INTRO_BYTES
        end
    end
    if h.sealed and (wrong or not reads_well(tvb, h, at, stop)) then
        wrong = nil
        if stop > at then
            tree:add(f.sealed, tvb(at, stop - at))
            titles = {string.format("%d B", stop - at)}
        end
    elseif wrong then
        complain(tree, tvb, at - INTRO_BYTES, wrong)
    else
        titles, wrong = show_rest(tree, tvb, h, at, stop)
    end
    show_trailer(tree, tvb, h, stop, status)
    return info_of(h, status, titles, wrong)
end

function diwarp.dissector(tvb, pinfo, root)
    pinfo.cols.protocol = "diwarp"
    local tree = root:add(diwarp, tvb())
    if tvb:len() < HEADER_BYTES or tvb:reported_len() < HEADER_BYTES + CRC_BYTES then
        complain(tree, tvb, 0, "shorter than header and trailer")
        pinfo.cols.info = string.format("%d B [malformed: shorter than header and trailer]",
            tvb:reported_len())
        return tvb:len()
    end
    local h, wrong = read_header(tvb)
    if wrong then
        show_header(tree, tvb)
        complain(tree, tvb, 0, wrong)
        pinfo.cols.info = string.format("%s [malformed: %s]", TYPES[h.type] or "?", wrong)
    else
        pinfo.cols.info = show_datagram(tree, tvb, h)
    end
    return tvb:len()
end

-- ---- which datagrams are diwarp's --------------------------------------------------------------

-- Address and port of those that a good datagram came to: what comes to them later is ours, too,
-- broken as it may be. Of sealed ones only who knows the secret can say that they are good: there, two
-- with the same 64 bits of token are enough. In a single pass the first of them is not shown, then.
local ends, tokens = {}, {}

function diwarp.init()
    ends, tokens = {}, {}
end

-- Only what nobody else would send.
local function is_ours(tvb, place, number)
    if tvb:len() < HEADER_BYTES or tvb:reported_len() < HEADER_BYTES + CRC_BYTES then
        return false
    end
    local h, wrong = read_header(tvb)
    if wrong or zero(tvb, 8, 8) then
        return false
    end
    local status = crc_status(tvb, h)
    if status == "none" then
        local at = HEADER_BYTES + (h.intro and INTRO_BYTES or 0)
        local stop = tvb:reported_len() - CRC_BYTES
        return zero(tvb, stop, CRC_BYTES) and reads_well(tvb, h, at, stop)
    elseif status == "unknown" then
        local token, before = tvb:raw(8, 8), tokens[place]
        tokens[place] = {token = token, number = number}
        return before and before.token == token and before.number ~= number
    end
    return status == "good"
end

diwarp:register_heuristic("udp", function(tvb, pinfo, root)
    local place = tostring(pinfo.dst) .. " " .. pinfo.dst_port
    if not ends[place] then
        if not is_ours(tvb, place, pinfo.number) then
            return false
        end
        ends[place] = true
    end
    diwarp.dissector(tvb, pinfo, root)
    return true
end)
DissectorTable.get("udp.port"):add_for_decode_as(diwarp)
