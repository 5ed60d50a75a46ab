//! A fabric as a picture: switches by level, hosts below, and a line for each cable.
//!
//! A picture of 36,000 hosts cannot show each of them; it shows the shape, and what is out of the
//! ordinary. So hosts are dots as long as there is room and a band below their switch after that,
//! lines get thinner where there are many, and what differs from its like is drawn last and named:
//! links that have failed in red and dashed, links with a rate of their own in blue. A cable is
//! drawn once for its two directions, and is out of the ordinary where either is.

use std::collections::BTreeMap;

use cavalcade_model::{BitsPerSec, Fabric, LinkId, Node};

use crate::svg::{Svg, px, shortened};

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 28.0;
/// The left edge of the labels of levels.
const ASIDE: f64 = 724.0;
const STEP: f64 = 96.0;
const TOP: f64 = 64.0;
/// Dots as long as there are no more hosts than this.
const MOST_DOTS: usize = 256;
/// Exceptions that are named.
const MOST_NAMED: usize = 12;

/// The look of a cable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Look {
    Usual,
    Own,
    Failed,
}

/// The picture as an SVG file. `title` is what the fabric is called.
pub fn fabric_picture(title: &str, fabric: &Fabric) -> String {
    let levels = levels(fabric);
    let bottom = TOP + STEP * (levels.len() - 1) as f64;
    let own = exceptions(fabric);
    let tall = bottom + 60.0 + 18.0 * own.len().min(MOST_NAMED + 1) as f64;
    let mut svg = Svg::file((px(WIDTH), px(tall)), (WIDTH, tall), title, "#fffefb");
    svg.text("title", (MARGIN, 28.0), &shortened(title, 110));
    let at = |node: Node| {
        let level = &levels[node.height()];
        let place = level.binary_search(&node).expect("every node is on its level");
        let step = (ASIDE - 2.0 * MARGIN) / level.len() as f64;
        (MARGIN + step * (place as f64 + 0.5), bottom - STEP * node.height() as f64)
    };
    cables(&mut svg, fabric, &own, levels[0].len() > MOST_DOTS, at);
    nodes(&mut svg, fabric, &levels, at);
    sides(&mut svg, fabric, &levels, bottom);
    for (nth, (link, look)) in own.iter().take(MOST_NAMED).enumerate() {
        let what = match look {
            Look::Failed => "failed".to_owned(),
            _ => fabric.capacity(*link).to_string(),
        };
        let y = bottom + 50.0 + 18.0 * nth as f64;
        svg.line(class(*look), (MARGIN, y - 4.0), (MARGIN + 24.0, y - 4.0));
        svg.text("", (MARGIN + 32.0, y), &format!("{}: {what}", fabric.link_name(*link)));
    }
    if own.len() > MOST_NAMED {
        let y = bottom + 50.0 + 18.0 * MOST_NAMED as f64;
        svg.text("muted", (MARGIN + 32.0, y), &format!("and {} more", own.len() - MOST_NAMED));
    }
    svg.finish()
}

fn class(look: Look) -> &'static str {
    match look {
        Look::Usual => "cable",
        Look::Own => "own",
        Look::Failed => "failed",
    }
}

/// All nodes by height, each level in order.
fn levels(fabric: &Fabric) -> Vec<Vec<Node>> {
    let mut levels: Vec<Vec<Node>> = Vec::new();
    for node in fabric.links().flat_map(|link| fabric.ends(link)) {
        let height = node.height();
        levels.resize(levels.len().max(height + 1), Vec::new());
        levels[height].push(node);
    }
    for level in &mut levels {
        level.sort_unstable();
        level.dedup();
    }
    levels
}

/// The two levels that a link joins and the rate that most links there have.
fn usual_rates(fabric: &Fabric) -> BTreeMap<(usize, usize), BitsPerSec> {
    let mut counts: BTreeMap<(usize, usize), BTreeMap<BitsPerSec, usize>> = BTreeMap::new();
    for link in fabric.links() {
        let rates = counts.entry(joins(fabric, link)).or_default();
        *rates.entry(fabric.capacity(link)).or_default() += 1;
    }
    let most = |rates: BTreeMap<BitsPerSec, usize>| rates.into_iter().max_by_key(|&(_, count)| count);
    counts.into_iter().filter_map(|(joined, rates)| Some((joined, most(rates)?.0))).collect()
}

fn joins(fabric: &Fabric, link: LinkId) -> (usize, usize) {
    let [from, to] = fabric.ends(link).map(Node::height);
    (from.min(to), from.max(to))
}

/// Links that have failed or have a rate of their own.
fn exceptions(fabric: &Fabric) -> Vec<(LinkId, Look)> {
    let usual = usual_rates(fabric);
    let look = |link| {
        if fabric.has_failed(link) {
            Look::Failed
        } else if fabric.capacity(link) != usual[&joins(fabric, link)] {
            Look::Own
        } else {
            Look::Usual
        }
    };
    fabric.links().map(|link| (link, look(link))).filter(|&(_, look)| look != Look::Usual).collect()
}

fn cables(
    svg: &mut Svg,
    fabric: &Fabric,
    own: &[(LinkId, Look)],
    banded: bool,
    at: impl Fn(Node) -> (f64, f64),
) {
    let ends = |link: LinkId| {
        let mut ends = fabric.ends(link);
        ends.sort_unstable_by_key(|&node| (node.height(), node));
        ends
    };
    let mut looks: BTreeMap<[Node; 2], Look> = BTreeMap::new();
    for link in fabric.links().filter(|&link| !banded || joins(fabric, link).0 > 0) {
        looks.entry(ends(link)).or_insert(Look::Usual);
    }
    for &(link, look) in own {
        let cable = looks.entry(ends(link)).or_insert(look);
        *cable = look.max(*cable);
    }
    let thin = (600.0 / looks.len() as f64).clamp(0.15, 1.2);
    svg.open_with("", &format!("stroke-width=\"{thin:.2}\""));
    for wanted in [Look::Usual, Look::Own, Look::Failed] {
        for ([low, high], _) in looks.iter().filter(|&(_, &look)| look == wanted) {
            svg.line(class(wanted), at(*low), at(*high));
        }
    }
    svg.close();
}

fn nodes(svg: &mut Svg, fabric: &Fabric, levels: &[Vec<Node>], at: impl Fn(Node) -> (f64, f64)) {
    if levels[0].len() <= MOST_DOTS {
        for &host in &levels[0] {
            svg.circle("host", at(host), 2.5);
        }
    } else {
        let mut spans: BTreeMap<Node, (f64, f64)> = BTreeMap::new();
        for link in fabric.links() {
            if let [host @ Node::Host(_), switch] = fabric.ends(link) {
                let x = at(host).0;
                let span = spans.entry(switch).or_insert((x, x));
                *span = (span.0.min(x), span.1.max(x));
            }
        }
        for (switch, (from, to)) in spans {
            let ((x, y), low) = (at(switch), at(Node::Host(0)).1);
            svg.path("band", &format!("M{x:.1} {y:.1}L{from:.1} {low:.1}H{to:.1}Z"));
            svg.rect("host", (from, low), ((to - from).max(0.4), 6.0));
        }
    }
    for level in &levels[1..] {
        let wide = (0.7 * (ASIDE - 2.0 * MARGIN) / level.len() as f64).clamp(0.4, 22.0);
        for &node in level {
            let (x, y) = at(node);
            svg.rect("switch", (x - wide / 2.0, y - 7.0), (wide, 14.0));
        }
    }
}

/// Labels each level, and the links between two of them.
fn sides(svg: &mut Svg, fabric: &Fabric, levels: &[Vec<Node>], bottom: f64) {
    for (height, level) in levels.iter().enumerate() {
        let text = match (level.len(), level[0]) {
            (1, Node::Switch(tier, _)) if levels.len() == 2 => tier.plural.to_owned(),
            (1, node) => node.to_string(),
            (count, node) => format!("{count} {}", node.plural()),
        };
        svg.text("", (ASIDE, bottom - STEP * height as f64 + 4.0), &text);
    }
    for ((low, _), rate) in usual_rates(fabric) {
        let links = fabric.links().filter(|&link| joins(fabric, link).0 == low).count();
        let text = format!("{links} links, {rate}");
        svg.text("muted", (ASIDE, bottom - STEP * (low as f64 + 0.5) + 4.0), &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::FabricSpec;

    fn picture(text: &str) -> String {
        let spec: FabricSpec = text.parse().unwrap();
        fabric_picture(text, &spec.build(BitsPerSec(1_000_000_000)).unwrap())
    }

    #[test]
    fn every_switch_and_cable_is_drawn_once() {
        let tree = picture("tree:pods=2,racks=3,hosts=4,oversubscription=2");
        assert_eq!(tree.matches("fill=\"#3b4a5a\"").count(), 1 + 2 + 6);
        assert_eq!(tree.matches("fill=\"#8a9aab\"").count(), 24);
        assert_eq!(tree.matches("stroke=\"#b9b5aa\"").count(), 24 + 6 + 2);
        assert!(tree.contains("6 racks") && tree.contains("12 links, 2Gbps"), "{tree}");
        let fat = picture("fattree:arity=4");
        assert_eq!(fat.matches("stroke=\"#b9b5aa\"").count(), 16 + 16 + 16);
    }

    #[test]
    fn what_is_out_of_the_ordinary_is_named() {
        let tree = picture(
            "leafspine:leaves=2,spines=2,hosts=2;leaf 0 to spine 1 failed;leaf 1 to spine 0 rate=3Mbps",
        );
        assert!(tree.contains("leaf 0 to spine 1: failed") && tree.contains("leaf 1 to spine 0: 3Mbps"));
        assert_eq!(tree.matches("stroke=\"#c0392b\"").count(), 2, "the cable and its name");
    }

    #[test]
    fn a_data_centre_is_a_small_file() {
        let large = picture("tree:pods=30,racks=30,hosts=40,oversubscription=2");
        assert!(large.len() < 400_000, "{}", large.len());
    }
}
