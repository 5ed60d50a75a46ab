//! temp
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "temporary")]
use cavalcade_model::*;
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
  let o = cavalcade_sim_fluid::simulate(&w, &fabric, &cavalcade_policy::parse(&std::env::args().nth(1).unwrap()).unwrap(), &Default::default(), None);
  let mean: f64 = (0..w.coflow_count()).map(|i| o.cct(CoflowId(i as u32)).as_secs_f64()).sum::<f64>() / w.coflow_count() as f64;
  println!("{} read {:?} run {:?} mean {mean:.4} makespan {} {:?}", std::env::args().nth(1).unwrap(), t1-t0, t1.elapsed(), o.makespan(), o.counts);
}
