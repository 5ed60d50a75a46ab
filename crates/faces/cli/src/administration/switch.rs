//! A software switch in `cavalcade ps` and `top`: its ports, with what each class sent, lost and
//! has waiting.

use cavalcade_model::BitsPerSec;
use cavalcade_report::Fit;
use cavalcade_runtime::administration::proto::{Switch, SwitchClass, SwitchPort};

use super::{amount, table};

/// The columns of a port. What `top` shows besides are rates between two looks.
pub(super) const COLUMNS: [&str; 11] =
    ["port", "link", "granted", "tasks", "questions", "SPC", "waits", "lost", "plain", "waits", "lost"];

/// Says which switch answers, and what it has seen.
pub(super) fn heading(switch: &Switch) -> String {
    format!(
        "switch {:016x}: {} ports, {} addresses; {} frames came in, {} malformed, {} refused, {} too large",
        switch.id,
        switch.ports.len(),
        switch.addresses,
        switch.received,
        switch.malformed,
        switch.refused,
        switch.too_large
    )
}

/// Shows ports as a table.
pub(super) fn list(switch: &Switch, fit: Fit) -> String {
    table(&COLUMNS, switch.ports.iter().map(|port| cells(port).to_vec()), fit)
}

/// The cells of a port: of each class what it sent, what waits, and packets lost for want of room.
pub(super) fn cells(port: &SwitchPort) -> [String; 11] {
    let of = |class: &Option<SwitchClass>| {
        let class = class.unwrap_or_default();
        [amount(class.bytes), amount(class.queued_bytes), class.dropped.to_string()]
    };
    let [[spc, spc_waits, spc_lost], [plain, plain_waits, plain_lost]] = [of(&port.spc), of(&port.plain)];
    [
        port.name.clone(),
        BitsPerSec(port.rate_bps).to_string(),
        BitsPerSec(port.granted_bps).to_string(),
        port.tasks.to_string(),
        port.questions.to_string(),
        spc,
        spc_waits,
        spc_lost,
        plain,
        plain_waits,
        plain_lost,
    ]
}
