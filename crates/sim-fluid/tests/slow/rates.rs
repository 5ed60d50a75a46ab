//! Rates from priorities, each by its definition and from nothing: what the solvers must agree with.
//!
//! Everything here is the shortest text that says what is meant; cost is no concern. Capacity below 10⁻⁹ of a link is
//! rounding and counts as none.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{ClassShares, Discipline, Excess, Path, Priority, Scope, Terms};

/// One unfinished flow.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) flow: u32,
    pub(crate) coflow: u32,
    pub(crate) links: Vec<usize>,
    /// How many flows arrived before it.
    pub(crate) entered: usize,
    /// How many flows arrived before the first of its coflow.
    pub(crate) opened: usize,
    /// Its priority at each of its links; all the same but for [`Scope::Link`].
    pub(crate) keys: [Priority; Path::LONGEST],
    pub(crate) remaining: f64,
    /// Infinite where there is none.
    pub(crate) cap: f64,
}

/// The rate of each ask, in bytes per nanosecond.
pub(crate) fn allocate(terms: &Terms, capacity: &[f64], asks: &[Ask]) -> Vec<f64> {
    let mut rates = vec![0.0; asks.len()];
    match (terms.scope, terms.discipline, &terms.shares) {
        (Scope::Link, Discipline::MaxMin, ClassShares::Strict) => stable(capacity, asks, &mut rates),
        (Scope::Link, other, shares) => panic!("not defined per link: {other:?}, {shares:?}"),
        (_, Discipline::MaxMin, ClassShares::Strict) => {
            strict(asks, &all(asks), &mut capacity.to_vec(), capacity, &mut rates);
        }
        (_, Discipline::MaxMin, ClassShares::Weighted { weights, excess }) => {
            weighted(capacity, asks, weights, *excess, &mut rates);
        }
        (_, Discipline::ShortestFlow, _) => shortest(capacity, asks, &mut rates),
        (_, Discipline::Greedy, _) => greedy(capacity, asks, &mut rates, |ask| ask.remaining),
        (_, Discipline::InTurn, _) => greedy(capacity, asks, &mut rates, |_| 1.0),
        (_, Discipline::Madd, _) => madd(capacity, asks, &mut rates),
    }
    rates
}

fn all(asks: &[Ask]) -> Vec<usize> {
    (0..asks.len()).collect()
}

fn is_negligible(rate: f64, capacity: f64) -> bool {
    rate <= 1e-9 * capacity
}

/// Groups of equal priority (at their first link), highest first.
fn groups(asks: &[Ask], members: &[usize], side: usize) -> BTreeMap<Priority, Vec<usize>> {
    let mut groups: BTreeMap<Priority, Vec<usize>> = BTreeMap::new();
    for &member in members {
        groups.entry(asks[member].keys[side]).or_default().push(member);
    }
    groups
}

/// Group after group, each max-min on what those before it left in `free`.
fn strict(asks: &[Ask], members: &[usize], free: &mut [f64], capacity: &[f64], rates: &mut [f64]) {
    for group in groups(asks, members, 0).values() {
        progressive_filling(asks, group, free, rates);
        for (free, full) in free.iter_mut().zip(capacity) {
            if is_negligible(*free, *full) {
                *free = 0.0;
            }
        }
    }
}

/// Raises all flows of `group` together; stops those that meet a full link or their cap; goes on with the rest.
fn progressive_filling(asks: &[Ask], group: &[usize], free: &mut [f64], rates: &mut [f64]) {
    let mut rising: Vec<usize> = group.to_vec();
    while !rising.is_empty() {
        let on = |link: usize| rising.iter().filter(|&&member| asks[member].links.contains(&link)).count();
        let links: BTreeSet<usize> = rising.iter().flat_map(|&member| asks[member].links.clone()).collect();
        let level_of = |link: usize| free[link] / on(link) as f64;
        let full = links.iter().copied().min_by(|&a, &b| level_of(a).total_cmp(&level_of(b)));
        let full = full.expect("a rising flow has links");
        let level = level_of(full);
        let capped = rising.iter().copied().min_by(|&a, &b| asks[a].cap.total_cmp(&asks[b].cap));
        let capped = capped.expect("something rises");
        let stopped: Vec<(usize, f64)> = if asks[capped].cap <= level {
            vec![(capped, asks[capped].cap)]
        } else {
            let stopped = rising.iter().copied().filter(|&member| asks[member].links.contains(&full));
            stopped.map(|member| (member, level)).collect()
        };
        for &(member, rate) in &stopped {
            rates[member] = rate;
            for &link in &asks[member].links {
                free[link] = (free[link] - rate).max(0.0);
            }
        }
        rising.retain(|member| stopped.iter().all(|(other, _)| other != member));
    }
}

/// Aalo Pseudocode 1. Each link splits its capacity by weight between the classes present there; each class fills what
/// it was offered, strictly by order inside; what is then free on a link is shared by the classes there that used up
/// their offer. From the highest class on each is served from what is not used by those before it, nor reserved for
/// those behind it.
fn weighted(capacity: &[f64], asks: &[Ask], weights: &[u32], excess: Excess, rates: &mut [f64]) {
    let links = capacity.len();
    let classes: BTreeSet<u16> = asks.iter().map(|ask| ask.keys[0].class).collect();
    let members = |class: u16| -> Vec<usize> {
        (0..asks.len()).filter(|&member| asks[member].keys[0].class == class).collect()
    };
    let weight = |class: u16| f64::from(weights[usize::from(class).min(weights.len() - 1)]);
    let present = |class: u16, link: usize| members(class).iter().any(|&m| asks[m].links.contains(&link));
    let mut offers: BTreeMap<u16, Vec<f64>> = BTreeMap::new();
    for &class in &classes {
        let offer = |link: usize| {
            let here = classes.iter().filter(|&&other| present(other, link)).map(|&other| weight(other));
            if present(class, link) { capacity[link] * weight(class) / here.sum::<f64>() } else { 0.0 }
        };
        offers.insert(class, (0..links).map(offer).collect());
    }
    let mut serve = |class: u16, offer: &[f64]| -> Vec<f64> {
        let mut free = offer.to_vec();
        strict(asks, &members(class), &mut free, capacity, rates);
        (0..links).map(|link| offer[link] - free[link]).collect()
    };
    let used: BTreeMap<u16, Vec<f64>> =
        classes.iter().map(|&class| (class, serve(class, &offers[&class]))).collect();
    let mut taken = used.clone();
    for link in 0..links {
        let free = capacity[link] - used.values().map(|used| used[link]).sum::<f64>();
        let wants = |class: &u16| {
            offers[class][link] > 0.0 && used[class][link] >= offers[class][link] - 1e-9 * capacity[link]
        };
        let mut wanting: Vec<u16> = classes.iter().copied().filter(|class| wants(class)).collect();
        if excess == Excess::Highest {
            wanting.truncate(1);
        }
        let total: f64 = wanting.iter().map(|&class| weight(class)).sum();
        for class in wanting.iter().filter(|_| !is_negligible(free, capacity[link])) {
            taken.get_mut(class).expect("every class takes something")[link] += free * weight(*class) / total;
        }
    }
    for &class in &classes {
        let others = |link: usize| {
            taken.iter().filter(|(other, _)| **other != class).map(|(_, taken)| taken[link]).sum::<f64>()
        };
        let offer: Vec<f64> = (0..links).map(|link| (capacity[link] - others(link)).max(0.0)).collect();
        let uses = serve(class, &offer);
        taken.insert(class, uses);
    }
}

/// Bytes left as shortest flow first compares them: in 1024ths, so that flows that draw level do so whatever the rounding.
fn steps(left: f64) -> u64 {
    (left * 1024.0 + 0.5) as u64
}

/// Fewest remaining bytes first inside a priority, then by id; each takes all it can.
fn shortest(capacity: &[f64], asks: &[Ask], rates: &mut [f64]) {
    let mut order = all(asks);
    order.sort_by(|&a, &b| {
        let (a, b) = (&asks[a], &asks[b]);
        a.keys[0].cmp(&b.keys[0]).then(steps(a.remaining).cmp(&steps(b.remaining))).then(a.flow.cmp(&b.flow))
    });
    take_all(capacity, asks, &order, rates);
}

/// Each of `order` takes all that its links have left.
fn take_all(capacity: &[f64], asks: &[Ask], order: &[usize], rates: &mut [f64]) {
    let mut free = capacity.to_vec();
    for (ask, rate) in asks.iter().zip(rates.iter()) {
        for &link in &ask.links {
            free[link] -= rate;
        }
    }
    for &member in order {
        let ask = &asks[member];
        let least = |of: &[f64]| ask.links.iter().map(|&link| of[link]).fold(f64::INFINITY, f64::min);
        let more = least(&free).min(ask.cap - rates[member]);
        if !is_negligible(more, least(capacity)) {
            rates[member] += more;
            ask.links.iter().for_each(|&link| free[link] -= more);
        }
    }
}

/// Bytes of a coflow on each link.
fn loads(asks: &[Ask], weight: impl Fn(&Ask) -> f64) -> BTreeMap<(u32, usize), f64> {
    let mut loads = BTreeMap::new();
    for ask in asks {
        for &link in &ask.links {
            *loads.entry((ask.coflow, link)).or_insert(0.0) += weight(ask);
        }
    }
    loads
}

/// By priority; inside, flows on the fullest links of their coflow first.
fn greedy(capacity: &[f64], asks: &[Ask], rates: &mut [f64], weight: impl Fn(&Ask) -> f64) {
    let loads = loads(asks, weight);
    let fullest = |ask: &Ask| ask.links.iter().map(|&link| loads[&(ask.coflow, link)]).fold(0.0, f64::max);
    let mut order = all(asks);
    order.sort_by(|&a, &b| {
        let (a, b) = (&asks[a], &asks[b]);
        a.keys[0].cmp(&b.keys[0]).then(fullest(b).total_cmp(&fullest(a))).then(a.flow.cmp(&b.flow))
    });
    take_all(capacity, asks, &order, rates);
}

/// Varys §5.3: by priority, then whose coflow arrived first, each flow at remaining over Γ on what is left; then the rest goes out
/// greedily, in the order in which flows arrived.
fn madd(capacity: &[f64], asks: &[Ask], rates: &mut [f64]) {
    let mut free = capacity.to_vec();
    let order: BTreeSet<(Priority, usize)> = asks.iter().map(|ask| (ask.keys[0], ask.opened)).collect();
    for (key, opened) in &order {
        let members: Vec<usize> =
            (0..asks.len()).filter(|&m| asks[m].opened == *opened && asks[m].keys[0] == *key).collect();
        let own: Vec<Ask> = members.iter().map(|&member| asks[member].clone()).collect();
        let usable = |link: usize| if is_negligible(free[link], capacity[link]) { 0.0 } else { free[link] };
        let gamma = loads(&own, |ask| ask.remaining)
            .iter()
            .map(|((_, link), bytes)| bytes / usable(*link))
            .fold(0.0, f64::max);
        if !gamma.is_finite() {
            continue;
        }
        for &member in &members {
            rates[member] = (asks[member].remaining / gamma).min(asks[member].cap);
            for &link in &asks[member].links {
                free[link] -= rates[member];
            }
        }
    }
    let mut rest = all(asks);
    rest.sort_by_key(|&member| (asks[member].keys[0], asks[member].opened, asks[member].entered));
    take_all(capacity, asks, &rest, rates);
}

/// Priorities of each link's own: deferred acceptance. Every link shares its capacity down its classes, nobody getting
/// more than the bound known for it, the links where flows enter first, then those behind them; where a link grants less
/// than was offered to it, the flow's bound falls to the grant. Bounds only fall, so this ends.
fn stable(capacity: &[f64], asks: &[Ask], rates: &mut [f64]) {
    let least = |ask: &Ask| ask.links.iter().map(|&link| capacity[link]).fold(f64::INFINITY, f64::min);
    let mut bounds: Vec<f64> = asks.iter().map(|ask| least(ask).min(ask.cap)).collect();
    for _ in 0..1_000_000 {
        let mut grants = share_links(capacity, asks, 0, &bounds);
        let mut fell = false;
        for hop in 1..Path::LONGEST {
            let offers = grants;
            grants = share_links(capacity, asks, hop, &offers);
            for (member, ask) in asks.iter().enumerate() {
                if grants[member] < offers[member] - least(ask) * 1e-13 {
                    bounds[member] = grants[member];
                    fell = true;
                }
            }
        }
        if !fell {
            rates.copy_from_slice(&grants);
            return;
        }
    }
    panic!("bounds still fall after a million rounds");
}

/// Every link that is the `hop`-th of someone shares its capacity down its classes, max-min inside, nobody above its
/// bound. Who has fewer links keeps what it has.
fn share_links(capacity: &[f64], asks: &[Ask], hop: usize, bounds: &[f64]) -> Vec<f64> {
    let mut shares = bounds.to_vec();
    for (link, &full) in capacity.iter().enumerate() {
        let here: Vec<usize> =
            (0..asks.len()).filter(|&member| asks[member].links.get(hop) == Some(&link)).collect();
        let mut free = full;
        for group in groups(asks, &here, hop).values() {
            let mut rising = group.clone();
            rising.sort_by(|&a, &b| bounds[a].total_cmp(&bounds[b]));
            while let Some(&lowest) = rising.first() {
                let share = bounds[lowest].min(free / rising.len() as f64);
                shares[lowest] = share;
                free -= share;
                rising.remove(0);
            }
            if is_negligible(free, full) {
                free = 0.0;
            }
        }
    }
    shares
}
