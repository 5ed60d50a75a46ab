//! Storage retrieval: clients that fetch the chunks of an object from several servers at a time
//! (Baraat §2.2, §5.1, §5.2.2).
//!
//! A task is one object for one client: a chunk from each of `chunks` different servers. The
//! defaults are the paper's testbed: 4 clients, 16 servers, objects of 800 KB from 3 servers,
//! Poisson arrivals at half of what the clients' links carry.

use cavalcade_model::{BitsPerSec, Bytes, Flow, Nanos, PortId, Workload, WorkloadBuilder};

use super::parameters::parameters;
use super::random::{Purpose, Random};
use super::shape::{Background, FlowBudget, instant, require_counts, require_load, require_sizes};
use super::{GenerateError, Recipe, require};

parameters! {
    /// Parameters of `retrieval`.
    Retrieval {
        /// number of tasks
        tasks: u32 = 1000,
        /// number of clients, which are the first ports
        clients: u32 = 4,
        /// number of servers
        servers: u32 = 16,
        /// number of servers that a task fetches from
        chunks: u32 = 3,
        /// smallest chunk
        smallest: Bytes = Bytes(266_667),
        /// largest chunk
        largest: Bytes = Bytes(266_667),
        /// offered load on the links into the clients, as a share of their capacity
        load: f64 = 0.5,
        /// rate of a port, which the load refers to
        rate: BitsPerSec = BitsPerSec(1_000_000_000),
        /// number of background tasks of one flow
        background: u32 = 0,
        /// size of a background task
        background_size: Bytes = Bytes(100_000_000),
    }
}

impl Recipe for Retrieval {
    const NAME: &'static str = "retrieval";
    const MEANING: &'static str = "clients that fetch objects from several servers at a time";
    const SOURCE: &'static str = "Baraat §5.1, §5.2.2";

    fn generate(&self, seed: u64) -> Result<Workload, GenerateError> {
        self.check()?;
        FlowBudget::new().spend(u64::from(self.tasks) * u64::from(self.chunks))?;
        let mut sizes = Random::new(seed, Purpose::Sizes);
        let mut places = Random::new(seed, Purpose::Places);
        let mut arrivals = Random::new(seed, Purpose::Arrivals);
        let mean_bytes = (self.smallest.as_f64() + self.largest.as_f64()) / 2.0 * f64::from(self.chunks);
        let capacity = self.load * self.rate.bytes_per_nano() * f64::from(self.clients);
        let mut now = 0.0;
        let mut builder = WorkloadBuilder::new(self.ports());
        for number in 1..=self.tasks {
            now += arrivals.exponential() * mean_bytes / capacity;
            let dst = PortId(places.below(self.clients.into()) as u32);
            let servers = places.ports(self.chunks, self.servers);
            let chunk = |server: PortId| Flow {
                src: PortId(self.clients + server.0),
                dst,
                size: Bytes(sizes.between(self.smallest.0, self.largest.0)),
                wave: Nanos::ZERO,
            };
            builder.coflow(number.to_string(), instant(now)?, servers.into_iter().map(chunk).collect());
        }
        let background = Background { tasks: self.background, size: self.background_size };
        background.add(&mut builder, self.ports(), now, seed);
        Ok(builder.build()?)
    }
}

impl Retrieval {
    fn ports(&self) -> u32 {
        self.clients.saturating_add(self.servers)
    }

    fn check(&self) -> Result<(), GenerateError> {
        require(self.clients > 0, "clients", self.clients, "at least 1")?;
        require_counts(self.ports(), 2, self.tasks)?;
        let range = format_args!("1 to {}, the number of servers", self.servers).to_string();
        require((1..=self.servers).contains(&self.chunks), "chunks", self.chunks, range)?;
        require_load(self.load, self.rate)?;
        require_sizes([self.smallest, self.largest], self.load, self.rate)?;
        Background { tasks: self.background, size: self.background_size }.check(self.ports())
    }
}
