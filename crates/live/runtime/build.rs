//! Makes the code of gRPC services from their definitions. `protox` reads them, so that no `protoc`
//! is needed.

#![allow(clippy::print_stdout, reason = "what a build script prints is read by cargo")]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let administration = protox::compile(["proto/administration.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .message_attribute(".", "#[derive(serde::Serialize)]")
        .compile_fds(administration)?;
    let etcd = protox::compile(["proto/etcd.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).compile_fds(etcd)?;
    Ok(())
}
