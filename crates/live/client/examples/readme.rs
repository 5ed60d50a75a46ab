//! Sends a line as a coflow of one flow: `readme AGENT_SOCKET HOST PORT`.

use std::io::Write;
use std::net::TcpStream;

use cavalcade_client::{Registration, Session};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let session = Session::open(&arguments[1])?;
    let shuffle = session.register(Registration::default())?;
    let socket = TcpStream::connect(format!("{}:{}", arguments[2], arguments[3]))?;
    let mut stream = session.stream(socket, shuffle, None)?;
    stream.write_all(b"map output\n")?;
    drop(stream);
    session.unregister(shuffle);
    Ok(())
}
