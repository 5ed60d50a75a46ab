-- Baraat's header (SPC) in the captures of `cavalcade simulate --transport spc --headers 68B --pcap FILE`.
--
-- 26 bytes in an IP option (number 30, for experiments, RFC 4727); what each bit means stands in
-- crates/transport/src/spc/header.rs. Run as: wireshark -X lua_script:cavalcade_spc.lua FILE

local spc = Proto("spc", "Smart Priority Class (Baraat)")

local PORTS = 6
local LENGTH = 26

local field = {
    task = ProtoField.uint32("spc.task", "Task-id"),
    scale = ProtoField.uint8("spc.scale", "Scale", base.DEC, nil, 0x0f),
    round = ProtoField.uint8("spc.round", "Question's number", base.DEC, nil, 0x30),
    asks = ProtoField.bool("spc.asks", "Asks", 8, nil, 0x40),
    hops = ProtoField.uint8("spc.hops", "Ports that have answered", base.DEC, nil, 0x07),
    nominal = ProtoField.uint64("spc.nominal", "Nominal rate (bytes/µs)"),
    actual = ProtoField.uint64("spc.actual", "Actual rate (bytes/µs)"),
    previous = ProtoField.uint64("spc.previous", "Returned rate (bytes/µs)"),
    demand = ProtoField.uint64("spc.demand", "Demand (bytes/µs)"),
    returned = ProtoField.uint64("spc.returned", "Returned demand (bytes/µs)"),
}
spc.fields = {
    field.task, field.scale, field.round, field.asks, field.hops,
    field.nominal, field.actual, field.previous, field.demand, field.returned,
}

local OPTION = 0x9e
local FIRST = 22

-- Behind all dissectors, since IP's own knows nothing of this option.
function spc.dissector(frame, info, tree)
    if frame:len() < FIRST + LENGTH or frame(20, 1):uint() ~= OPTION or frame(21, 1):uint() ~= LENGTH + 2 then
        return
    end
    local buffer = frame(FIRST, LENGTH)
    local unit = 2 ^ (buffer(4, 1):uint() % 16)
    local function rate(at)
        return UInt64(buffer(at, 1):uint() * unit)
    end
    local header = tree:add(spc, buffer)
    header:add(field.task, buffer(0, 4))
    header:add(field.scale, buffer(4, 1))
    header:add(field.round, buffer(4, 1))
    header:add(field.asks, buffer(4, 1))
    header:add(field.hops, buffer(23, 1))
    local hops = math.min(buffer(23, 1):uint() % 8, PORTS)
    for port = 0, PORTS - 1 do
        if port < hops then
            header:add(field.nominal, buffer(5 + 2 * port, 1), rate(5 + 2 * port))
            header:add(field.actual, buffer(6 + 2 * port, 1), rate(6 + 2 * port))
        end
        if buffer(17 + port, 1):uint() > 0 then
            header:add(field.previous, buffer(17 + port, 1), rate(17 + port))
        end
    end
    header:add(field.demand, buffer(24, 1), rate(24))
    header:add(field.returned, buffer(25, 1), rate(25))
    info.cols.protocol = "SPC"
end

register_postdissector(spc)
