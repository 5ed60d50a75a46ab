//! The rule by which this host sorts messages itself, as the kernel has it (`bpf/demotion.h`).

use cavalcade_client::DscpMap;
use cavalcade_model::Demotion;

use crate::flow::{dscp_of, priority_of};
use crate::shared::{self, CLASSES, Class, ClassWords, DemotionWords};

/// The rule and its classes in the kernel's words.
///
/// # Errors
/// If it has more classes than the kernel's table; the reason is for people.
pub(crate) fn to_kernel(
    rule: &Demotion,
    map: DscpMap,
) -> Result<(DemotionWords, Vec<(u32, ClassWords)>), String> {
    let (first, last) = (u32::from(rule.first), u32::from(rule.last()));
    if last >= CLASSES {
        return Err(format!("{} classes; {CLASSES} is the most, so take thresholds out", last + 1));
    }
    // Classes of deadlines have no end, nor has the last.
    let ends = std::iter::repeat_n(u64::MAX, usize::from(rule.first))
        .chain(rule.thresholds.iter().map(|threshold| threshold.0))
        .chain([u64::MAX]);
    let classes = ends.zip(0_u16..).map(|(end, class)| {
        let (tos, priority) = (u64::from(dscp_of(class, map)) << 2, u64::from(priority_of(class)));
        (u32::from(class), Class { end, tos, priority }.to_words())
    });
    let (least_patience, most_patience) = (*rule.patience.start(), *rule.patience.end());
    let by_size = u32::from(rule.by_size);
    let words = shared::Demotion { is_on: 1, first, last, by_size, least_patience, most_patience }.to_words();
    Ok((words, classes.collect()))
}
