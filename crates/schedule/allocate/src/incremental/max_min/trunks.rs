//! Links between switches, where all that crosses one comes from some ports and goes to some
//! others.
//!
//! On a tree the flows on the uplink of a rack are those from its hosts to all hosts elsewhere. So
//! which trunks a flow crosses follows from its row and its column, and all about the flows of one
//! trunk is about some rows and some columns together: no list of its flows is kept.
//!
//! # Invariants
//! - A flow crosses a trunk exactly if it enters at one of its rows and leaves at one of its
//!   columns.
//! - Ports of either side are a run, or all but a run: a sum over them is two differences of sums
//!   from the first port on.

use std::ops::Range;

use cavalcade_model::{Contended, Fabric, Path, PortId};

use super::group::{COLUMNS, ROWS};
use crate::bits::{has, members, set};

/// The most trunks on a path: beside those there are its row and its column.
pub(crate) const MOST_TRUNKS: usize = Path::LONGEST - 2;

/// The most ports of a fabric on which pairs of ports are counted trunk by trunk: a group of all
/// pairs takes some 50 bytes for each.
const MOST_PORTS_OF_TREE: u32 = 1_024;

/// More lines than this are not numbered.
const MOST_LINES: usize = u16::MAX as usize;

/// Lines on one side of a trunk.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    /// As bits, over the blocks of their side.
    pub(crate) lines: Vec<u64>,
    /// The same as two runs, of which one may be empty.
    runs: [Range<usize>; 2],
    /// The words in which there are any.
    words: Vec<usize>,
}

impl Reach {
    /// The lines of these bits; `None` if they are not a run, nor all but a run.
    fn new(lines: Vec<u64>, ports: Range<usize>) -> Option<Self> {
        let is_in = |line: usize| has(&lines, line as u32);
        let mut edges = ports.clone().skip(1).filter(|&line| is_in(line) != is_in(line - 1));
        let [first, second] = [edges.next(), edges.next()].map(|edge| edge.unwrap_or(ports.end));
        if edges.next().is_some() {
            return None;
        }
        let runs = if is_in(ports.start) {
            [ports.start..first, second..ports.end]
        } else {
            [first..second, ports.end..ports.end]
        };
        let words = (0..lines.len()).filter(|&word| lines[word] != 0).collect();
        Some(Self { lines, runs, words })
    }

    /// The lines, as runs.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        self.runs.clone().into_iter()
    }

    /// The sum over the lines, from the sums over all lines up to each.
    pub(crate) fn sum(&self, up_to: &[u32]) -> u32 {
        self.runs().map(|run| up_to[run.end] - up_to[run.start]).sum()
    }

    /// The place of one of the lines among them.
    #[inline]
    fn nth(&self, line: usize) -> usize {
        let [first, second] = &self.runs;
        if first.contains(&line) { line - first.start } else { first.len() + line - second.start }
    }

    fn len(&self) -> usize {
        self.runs().map(|run| run.len()).sum()
    }
}

/// The trunks that one flow crosses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crossed {
    lines: [u32; MOST_TRUNKS],
    count: usize,
}

impl std::ops::Deref for Crossed {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        &self.lines[..self.count]
    }
}

/// All trunks of a fabric. Those of one switch are none.
#[derive(Clone, Debug)]
pub(crate) struct Trunks {
    /// The ports of the fabric.
    ports: usize,
    /// The words of links in which trunks lie.
    pub(crate) words: Range<usize>,
    /// By line: its rows and its columns; nothing where the line is no trunk.
    reach: Vec<Option<[Reach; 2]>>,
    /// The lines that are trunks, as bits.
    pub(crate) lines: Vec<u64>,
    /// The trunks of each row, and of each column, on any of its paths.
    of_port: [Vec<Vec<u32>>; 2],
    /// By line: the side on which a trunk has fewer lines, and how many such lines those before it
    /// have.
    narrow: Vec<(usize, usize)>,
    /// How many they have in all.
    narrow_lines: usize,
}

impl Trunks {
    /// Those of a switch with so many ports.
    pub(crate) fn none(ports: usize) -> Self {
        Self {
            ports,
            words: 0..0,
            reach: Vec::new(),
            lines: Vec::new(),
            of_port: [Vec::new(), Vec::new()],
            narrow: Vec::new(),
            narrow_lines: 0,
        }
    }

    /// The words in which the links of each side lie on a fabric with so many ports, of which these
    /// have trunks.
    fn blocks_of(ports: usize, trunks: Range<usize>) -> [Range<usize>; 3] {
        [0..ports.div_ceil(64), ports / 64..(2 * ports).div_ceil(64), trunks]
    }

    /// The words in which the links of each side lie: rows, columns, trunks.
    pub(crate) fn blocks(&self) -> [Range<usize>; 3] {
        Self::blocks_of(self.ports, self.words.clone())
    }

    /// Those of `links` that lie between switches of `fabric`. `None` if there are too many, or too
    /// many ports, if no path leads from a port to another, or if the flows of one are not those
    /// between some rows and some columns, each a run or all but a run: so where flows between two
    /// switches go several ways.
    pub(crate) fn of(fabric: &Fabric, links: &Contended) -> Option<Self> {
        let ports = fabric.ports() as usize;
        let words = 2 * ports / 64..fabric.link_count().div_ceil(64);
        if fabric.ports() > MOST_PORTS_OF_TREE || 64 * words.len() > MOST_LINES {
            return None;
        }
        let sides = Self::blocks_of(ports, words.clone());
        let lines = [0..ports, ports % 64..ports % 64 + ports];
        let first = 64 * words.start;
        let mut pairs = vec![0; 64 * words.len()];
        let mut bits = vec![[0, 1].map(|side| vec![0; sides[side].len()]); pairs.len()];
        for (row, column) in (0..ports).flat_map(|row| (0..ports).map(move |column| (row, column))) {
            let path = fabric.find_path(PortId(row as u32), PortId(column as u32))?;
            let trunks = path.iter().filter(|link| link.index() >= 2 * ports && links.contains(**link));
            for trunk in trunks.map(|link| link.index() - first) {
                pairs[trunk] += 1;
                set(&mut bits[trunk][ROWS], row as u32, true);
                set(&mut bits[trunk][COLUMNS], (lines[COLUMNS].start + column) as u32, true);
            }
        }
        let mut reach = Vec::new();
        let mut are_trunks = vec![0; words.len()];
        let mut of_port = [0, 1].map(|side| vec![Vec::new(); 64 * sides[side].len()]);
        for (trunk, ([rows, columns], pairs)) in (0..).zip(bits.into_iter().zip(pairs)) {
            if pairs == 0 {
                reach.push(None);
                continue;
            }
            let both = [Reach::new(rows, lines[ROWS].clone())?, Reach::new(columns, lines[COLUMNS].clone())?];
            if both[ROWS].len() * both[COLUMNS].len() != pairs {
                return None;
            }
            for (side, of_side) in of_port.iter_mut().enumerate() {
                members(both[side].lines.iter().copied()).for_each(|line| of_side[line as usize].push(trunk));
            }
            reach.push(Some(both));
            set(&mut are_trunks, trunk, true);
        }
        let (mut narrow, mut narrow_lines) = (Vec::new(), 0);
        for both in &reach {
            let lens = both.as_ref().map_or([0, 0], |both| [ROWS, COLUMNS].map(|side| both[side].len()));
            let side = if lens[ROWS] <= lens[COLUMNS] { ROWS } else { COLUMNS };
            narrow.push((side, narrow_lines));
            narrow_lines += lens[side];
        }
        Some(Self { ports, words, reach, lines: are_trunks, of_port, narrow, narrow_lines })
    }

    /// Returns whether there are none.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.reach.is_empty()
    }

    /// The trunks that a flow between two lines crosses.
    #[inline]
    pub(crate) fn between(&self, lines: [u32; 2]) -> Crossed {
        if self.is_none() { Crossed::default() } else { self.find_between(lines) }
    }

    /// The links between switches that a flow crosses, from the links of its ports.
    pub(crate) fn links_between(&self, [row, column]: [u32; 2]) -> impl Iterator<Item = u32> + use<> {
        let [_, columns, trunks] = self.blocks().map(|words| 64 * words.start as u32);
        let crossed = self.between([row, column - columns]);
        (0..crossed.count).map(move |nth| trunks + crossed.lines[nth])
    }

    fn find_between(&self, [row, column]: [u32; 2]) -> Crossed {
        let mut crossed = Crossed::default();
        for &trunk in self.of_port(ROWS, row) {
            if has(&self.reach(COLUMNS, trunk).lines, column) {
                crossed.lines[crossed.count] = trunk;
                crossed.count += 1;
            }
        }
        crossed
    }

    /// The rows, or the columns, of a trunk.
    #[inline]
    pub(crate) fn reach(&self, side: usize, trunk: u32) -> &Reach {
        let both = self.reach[trunk as usize].as_ref();
        &both.expect("only links between switches are asked for")[side]
    }

    /// The trunks of a row or of a column, on any of its paths.
    #[inline]
    pub(crate) fn of_port(&self, side: usize, line: u32) -> &[u32] {
        &self.of_port[side][line as usize]
    }

    /// Takes what lies beyond a trunk out of what its lines reach: a set of lines of the other side
    /// for each line.
    pub(crate) fn part(&self, trunk: u32, reached: &mut [Vec<u64>; 2]) {
        for side in [ROWS, COLUMNS] {
            let beyond = self.reach(1 - side, trunk);
            let stride = beyond.lines.len();
            for run in self.reach(side, trunk).runs() {
                let reached = &mut reached[side][run.start * stride..run.end * stride];
                for &word in &beyond.words {
                    let kept = !beyond.lines[word];
                    reached.iter_mut().skip(word).step_by(stride).for_each(|reached| *reached &= kept);
                }
            }
        }
    }

    /// Sets in which every line reaches all of the other side.
    pub(crate) fn all_reached(&self) -> [Vec<u64>; 2] {
        let [rows, columns] = &self.of_port;
        [(rows, columns), (columns, rows)].map(|(own, others)| vec![!0; own.len() * (others.len() / 64)])
    }

    /// Runs of lines of a side that have the same trunks.
    pub(crate) fn alike(
        &self,
        side: usize,
        lines: impl Iterator<Item = u32>,
    ) -> impl Iterator<Item = Vec<u32>> {
        let mut lines = lines.peekable();
        std::iter::from_fn(move || {
            let first = lines.next()?;
            let trunks = self.of_port(side, first);
            let mut alike = vec![first];
            alike.extend(std::iter::from_fn(|| lines.next_if(|&line| self.of_port(side, line) == trunks)));
            Some(alike)
        })
    }

    /// The side on which a trunk has fewer lines.
    #[inline]
    pub(crate) fn narrow_side(&self, trunk: u32) -> usize {
        self.narrow[trunk as usize].0
    }

    /// The number of one of those lines among all such lines of all trunks.
    #[inline]
    pub(crate) fn narrow_line(&self, trunk: u32, line: u32) -> usize {
        let (side, before) = self.narrow[trunk as usize];
        before + self.reach(side, trunk).nth(line as usize)
    }

    /// How many such lines all trunks have.
    pub(crate) fn narrow_lines(&self) -> usize {
        self.narrow_lines
    }
}

#[cfg(test)]
mod tests {
    use cavalcade_model::{BitsPerSec, FabricSpec};

    use super::*;

    fn trunks(fabric: &str) -> Option<Trunks> {
        let fabric = fabric.parse::<FabricSpec>().expect("a fabric").build(BitsPerSec(1_000_000_000));
        let fabric = fabric.expect("it can be built");
        Trunks::of(&fabric, &Contended::of(&fabric))
    }

    #[test]
    fn a_flow_crosses_the_trunks_of_its_path_on_trees_of_any_size() {
        for spec in [
            "tree:pods=1,racks=2,hosts=2,oversubscription=2",
            "tree:pods=3,racks=5,hosts=10,oversubscription=4",
        ] {
            let fabric = spec.parse::<FabricSpec>().expect("a fabric").build(BitsPerSec(1_000_000_000));
            let fabric = fabric.expect("it can be built");
            let links = Contended::of(&fabric);
            let trunks = Trunks::of(&fabric, &links).expect("a tree has one path between two ports");
            let (ports, first) = (fabric.ports(), 64 * trunks.words.start as u32);
            for (row, column) in (0..ports).flat_map(|row| (0..ports).map(move |column| (row, column))) {
                let crossed = trunks.between([row, ports % 64 + column]);
                let mut links_crossed: Vec<u32> = crossed.iter().map(|trunk| first + trunk).collect();
                let path = links.path(&fabric, PortId(row), PortId(column));
                let mut wanted: Vec<u32> = path[1..path.len() - 1].iter().map(|link| link.0).collect();
                links_crossed.sort_unstable();
                wanted.sort_unstable();
                assert_eq!(links_crossed, wanted, "{spec}: {row} to {column}");
            }
        }
    }

    #[test]
    fn fabrics_whose_flows_go_several_ways_between_two_switches_have_no_trunks() {
        assert!(trunks("leafspine:leaves=4,spines=2,hosts=4,oversubscription=4").is_none());
    }

    #[test]
    fn fabrics_with_more_links_than_are_numbered_have_no_trunks() {
        assert!(trunks("leafspine:leaves=2,spines=15000,hosts=1").is_some());
        assert!(trunks("leafspine:leaves=2,spines=60000,hosts=1").is_none());
    }

    #[test]
    fn a_set_that_is_neither_a_run_nor_all_but_a_run_is_refused() {
        let reach = |bits: u64| Reach::new(vec![bits], 0..8);
        assert_eq!(reach(0b0001_1100).map(|reach| reach.len()), Some(3));
        assert_eq!(reach(0b1100_0011).map(|reach| reach.len()), Some(4));
        assert!(reach(0b0101_0000).is_none());
        assert!(reach(0b1010_0001).is_none());
        assert_eq!(reach(0b1100_0011).map(|reach| reach.nth(7)), Some(3));
    }
}
