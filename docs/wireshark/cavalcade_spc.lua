-- Baraat's header (SPC): in captures of the simulator and in live ones.
--
-- `cavalcade simulate --transport spc --headers 68B --pcap FILE` writes its 26 bytes into an IP option (number 30, for experiments,
-- RFC 4727). Live they stand behind the UDP header, with 34 bytes for reliability behind them. What each bit means stands in
-- crates/simulate/transport/src/spc/header.rs and crates/simulate/transport/src/stream/frame.rs.
-- Run as: wireshark -X lua_script:cavalcade_spc.lua FILE, or with -i IF in place of FILE

local spc = Proto("spc", "Smart Priority Class (Baraat)")

local PORTS = 6
local LENGTH = 26
local LIVE = 60
local KINDS = { [0] = "data", [1] = "acknowledgement", [2] = "probe", [3] = "reset" }

local field = {
    task = ProtoField.uint32("spc.task", "Task-id"),
    scale = ProtoField.uint8("spc.scale", "Scale", base.DEC, nil, 0x0f),
    round = ProtoField.uint8("spc.round", "Question's number", base.DEC, nil, 0x30),
    asks = ProtoField.bool("spc.asks", "Asks", 8, nil, 0x40),
    hops = ProtoField.uint8("spc.hops", "Ports that have answered", base.DEC, nil, 0x07),
    nominal = ProtoField.uint64("spc.nominal", "Nominal rate (bits/s)"),
    actual = ProtoField.uint64("spc.actual", "Actual rate (bits/s)"),
    previous = ProtoField.uint64("spc.previous", "Returned rate (bits/s)"),
    demand = ProtoField.uint64("spc.demand", "Demand (bits/s)"),
    returned = ProtoField.uint64("spc.returned", "Returned demand (bits/s)"),
    rate = ProtoField.uint64("spc.rate", "Fair share (bits/s)"),
    kind = ProtoField.uint8("spc.kind", "Kind", base.DEC, KINDS),
    opening = ProtoField.bool("spc.opening", "Opening", 8, nil, 1),
    last = ProtoField.bool("spc.last", "Last segment", 8, nil, 2),
    duplicate = ProtoField.bool("spc.duplicate", "Arrived before", 8, nil, 4),
    accepted = ProtoField.bool("spc.accepted", "From the end that accepted", 8, nil, 8),
    connection = ProtoField.uint64("spc.connection", "Connection", base.HEX),
    segment = ProtoField.uint32("spc.segment", "Segment"),
    room = ProtoField.uint32("spc.room", "Room in segments, or a reset's reason"),
    run_from = ProtoField.uint32("spc.run_from", "Run of segments: first"),
    run_to = ProtoField.uint32("spc.run_to", "Run of segments: end"),
    checksum = ProtoField.uint32("spc.checksum", "CRC-32", base.HEX),
    payload = ProtoField.bytes("spc.payload", "Payload"),
}
spc.fields = {
    field.task, field.scale, field.round, field.asks, field.hops,
    field.nominal, field.actual, field.previous, field.demand, field.returned,
    field.rate, field.kind, field.opening, field.last, field.duplicate, field.accepted, field.connection, field.segment, field.room,
    field.run_from, field.run_to, field.checksum, field.payload,
}

local OPTION = 0x9e
local FIRST = 22

-- The 26 bytes, wherever they stand.
local function dissect_header(buffer, tree)
    local unit = 250000 * 2 ^ (buffer(4, 1):uint() % 16)
    local function rate(at)
        return UInt64(buffer(at, 1):uint() * unit)
    end
    tree:add(field.task, buffer(0, 4))
    tree:add(field.scale, buffer(4, 1))
    tree:add(field.round, buffer(4, 1))
    tree:add(field.asks, buffer(4, 1))
    tree:add(field.hops, buffer(23, 1))
    local hops = math.min(buffer(23, 1):uint() % 8, PORTS)
    for port = 0, PORTS - 1 do
        if port < hops then
            tree:add(field.nominal, buffer(5 + 2 * port, 1), rate(5 + 2 * port))
            tree:add(field.actual, buffer(6 + 2 * port, 1), rate(6 + 2 * port))
        end
        if buffer(17 + port, 1):uint() > 0 then
            tree:add(field.previous, buffer(17 + port, 1), rate(17 + port))
        end
    end
    tree:add(field.demand, buffer(24, 1), rate(24))
    tree:add(field.returned, buffer(25, 1), rate(25))
end

-- Behind all dissectors, since IP's own knows nothing of this option.
function spc.dissector(frame, info, tree)
    if frame:len() < FIRST + LENGTH or frame(20, 1):uint() ~= OPTION or frame(21, 1):uint() ~= LENGTH + 2 then
        return
    end
    local buffer = frame(FIRST, LENGTH)
    dissect_header(buffer, tree:add(spc, buffer))
    info.cols.protocol = "SPC"
end

-- A datagram between live hosts: port numbers are free, four bytes behind the header tell it from others.
local function dissect_live(buffer, info, tree)
    local magic = buffer:len() >= LIVE and buffer(LENGTH, 4):string()
    if magic ~= "SPC\001" and magic ~= "RCP\001" then
        return false
    end
    local header = tree:add(spc, buffer())
    if magic == "SPC\001" then
        dissect_header(buffer(0, LENGTH), header)
    else
        header:add(field.task, buffer(0, 4))
        header:add(field.rate, buffer(5, 8))
    end
    local marks = buffer(31, 1)
    header:add(field.kind, buffer(30, 1))
    header:add(field.opening, marks)
    header:add(field.last, marks)
    header:add(field.duplicate, marks)
    header:add(field.accepted, marks)
    header:add(field.connection, buffer(32, 8))
    header:add(field.segment, buffer(40, 4))
    header:add(field.room, buffer(44, 4))
    header:add(field.run_from, buffer(48, 4))
    header:add(field.run_to, buffer(52, 4))
    header:add(field.checksum, buffer(56, 4))
    if buffer:len() > LIVE then
        header:add(field.payload, buffer(LIVE))
    end
    info.cols.protocol = "SPC"
    local kind = KINDS[buffer(30, 1):uint()] or "?"
    info.cols.info = string.format("%s, task %d, segment %d", kind, buffer(0, 4):uint(), buffer(40, 4):uint())
    return true
end

spc:register_heuristic("udp", dissect_live)

register_postdissector(spc)
