//! temp
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "temporary")]
use cavalcade_model::*;
struct Nop;
impl NonClairvoyant for Nop { fn handle(&mut self, _: Instant, _: Event, _: &dyn Observe, _: &mut Decision) {} }
struct Fifo;
impl NonClairvoyant for Fifo { fn handle(&mut self, _: Instant, e: Event, _: &dyn Observe, d: &mut Decision) { if let Event::CoflowArrived(c) = e { d.set_coflow(c, Priority::new(0, c.0 as u64)); } } }
struct Dclas { th: Vec<u64> , q: std::collections::BTreeMap<u32, usize>}
impl NonClairvoyant for Dclas { fn handle(&mut self, _: Instant, e: Event, _: &dyn Observe, d: &mut Decision) { match e {
 Event::CoflowArrived(c) => { d.set_coflow(c, Priority::new(0, c.0 as u64)); self.q.insert(c.0,0); d.watch(Target::Coflow(c), Bytes(self.th[0])); }
 Event::Reached(Target::Coflow(c)) => { let q = self.q.get_mut(&c.0).unwrap(); *q += 1; d.set_coflow(c, Priority::new(*q as u16, c.0 as u64)); if *q < self.th.len() { d.watch(Target::Coflow(c), Bytes(self.th[*q])); } }
 _ => {} } } }
struct Sebf { a: Vec<CoflowId> }
impl Clairvoyant for Sebf { fn handle(&mut self, _: Instant, e: Event, v: &dyn Foresee, d: &mut Decision) { match e {
 Event::CoflowArrived(c) => { self.a.push(c); }
 Event::CoflowFinished(c) => { self.a.retain(|x| *x != c); }
 _ => {} } for &c in &self.a { d.set_coflow(c, Priority::new(0, v.bottleneck(c).0)); } } }
struct F(String);
impl PolicyFactory for F {
  fn terms(&self) -> Terms { Terms { scope: Scope::Fabric, discipline: if self.0 == "sebf" || self.0=="gfifo" { Discipline::Greedy } else if self.0 == "sff" { Discipline::ShortestFlow } else { Discipline::MaxMin }, shares: if self.0 == "dclasw" { ClassShares::Weighted { weights: (1..=10).rev().collect(), excess: Excess::Weighted } } else { ClassShares::Strict }, flow_events: false, work_conserving: true, starvation_free: false } }
  fn build(&self, _: &Setting<'_>) -> Policy { match &*self.0 { "fair" | "sff" => Policy::NonClairvoyant(Box::new(Nop)), "fifo" | "gfifo" => Policy::NonClairvoyant(Box::new(Fifo)), "sebf" => Policy::Clairvoyant(Box::new(Sebf{a:vec![]})), _ => { let mut th = vec![10_000_000u64]; for _ in 0..8 { th.push(th[th.len()-1]*10); } Policy::NonClairvoyant(Box::new(Dclas{th, q: Default::default()})) } } }
}
fn main() {
  let path = std::env::args().nth(2).unwrap();
  let t0 = std::time::Instant::now();
  let s = std::fs::read_to_string(path).unwrap();
  let mut lines = s.lines();
  let ports: u32 = lines.next().unwrap().split_whitespace().next().unwrap().parse().unwrap();
  let mut b = WorkloadBuilder::new(ports);
  for l in lines {
    let mut w = l.split_whitespace();
    let id = w.next().unwrap(); let ms: u64 = w.next().unwrap().parse().unwrap();
    let m: usize = w.next().unwrap().parse().unwrap();
    let ms_: Vec<u32> = (0..m).map(|_| w.next().unwrap().parse().unwrap()).collect();
    let r: usize = w.next().unwrap().parse().unwrap();
    let mut fl = vec![];
    for _ in 0..r { let (p, mb) = w.next().unwrap().split_once(':').unwrap(); let p: u32 = p.parse().unwrap(); let mb: f64 = mb.parse().unwrap();
      for &x in &ms_ { fl.push(Flow { src: PortId(x), dst: PortId(p), size: Bytes((mb * 1048576.0 / m as f64).round() as u64), wave: Nanos::ZERO }); } }
    b.coflow(id, Instant(ms * 1_000_000), fl);
  }
  let w = b.build().unwrap();
  let t1 = std::time::Instant::now();
  let fabric = Fabric::big_switch(ports, BitsPerSec(std::env::args().nth(3).map_or(1_000_000_000, |x| x.parse().unwrap()))).unwrap();
  let o = cavalcade_sim_fluid::simulate(&w, &fabric, &F(std::env::args().nth(1).unwrap()), &Default::default(), None);
  let mean: f64 = (0..w.coflow_count()).map(|i| o.cct(CoflowId(i as u32)).as_secs_f64()).sum::<f64>() / w.coflow_count() as f64;
  println!("{} read {:?} run {:?} mean {mean:.4} makespan {} {:?}", std::env::args().nth(1).unwrap(), t1-t0, t1.elapsed(), o.makespan(), o.counts);
}
