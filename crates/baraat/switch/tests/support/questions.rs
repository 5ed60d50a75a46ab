//! Questions of SPC as frames, without a host that asks them.

use cavalcade_switch::packet::ETHERNET;
use cavalcade_transport::spc::{Returned, SpcHeader};
use cavalcade_transport::stream::frame::{Frame, FrameKind, peek};

use crate::support::ethernet;

/// A question of a flow of a task, new and with this number, which demands the whole link, to a
/// host whose kernel drops it: IP's checksum is wrong.
pub(crate) fn question(from: [u8; 6], to: u8, task: u32, flow: u32) -> Vec<u8> {
    demand(from, to, SpcHeader::new(task, 0).asking(1, 200, &Returned::default()), flow)
}

/// The same with any header.
pub(crate) fn demand(from: [u8; 6], to: u8, spc: SpcHeader, flow: u32) -> Vec<u8> {
    let mut payload = Vec::new();
    Frame { payload: &[], ..Frame::new(FrameKind::Data, u64::from(flow), spc) }.encode(&mut payload);
    let mut bytes = [ethernet(to), from].concat();
    bytes.extend([8, 0, 0x45, 0]);
    bytes.extend((28 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 77, 10, 9, 0, to]);
    let ports_and_length = [4_000, 5_000, 8 + payload.len() as u16, 0];
    bytes.extend(ports_and_length.iter().flat_map(|field: &u16| field.to_be_bytes()));
    bytes.extend(payload);
    bytes
}

/// The header of a frame.
pub(crate) fn header_of(frame: &[u8]) -> Option<SpcHeader> {
    peek(frame.get(ETHERNET + 28..)?).ok().map(|seen| seen.header)
}

/// The task of a frame.
pub(crate) fn task_of(frame: &[u8]) -> Option<u32> {
    header_of(frame).map(|header| header.task())
}

/// The nominal rate that switches have answered such a question with, in units.
pub(crate) fn answer(frame: &[u8], task: u32, flow: u32) -> Option<u8> {
    let seen = peek(frame.get(ETHERNET + 28..)?).ok()?;
    let (nominal, _) = seen.header.least()?;
    (seen.header.task() == task && seen.flow == flow).then_some(nominal)
}

/// The rate that the first switch has granted with such a question, in grains.
pub(crate) fn granted(frame: &[u8]) -> Option<u64> {
    let header = header_of(frame)?;
    Some(u64::from(header.returned().rates[0]) * header.unit())
}
