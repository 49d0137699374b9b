//! Devices that are distinct without a GPU: a server in this process, reached over loopback.

use std::sync::OnceLock;

use burn::remote::RemoteHost;
use burn::server::{RemoteServer, WebSocketTransport};
use burn::tensor::Device;
use tokio::runtime::{Builder, Runtime};

/// Two devices of one server, which serves until the process ends.
pub fn devices() -> [Device; 2] {
    static SERVER: OnceLock<(Runtime, String)> = OnceLock::new();
    let (_, url) = SERVER.get_or_init(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("ws://{}", listener.local_addr().expect("an address"));
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let server = RemoteServer::new([Device::flex(), Device::flex()]);
        let serving = server.serve_async(WebSocketTransport::from_listener(listener));
        runtime.spawn(async move { serving.await.expect("it serves") });
        (runtime, url)
    });
    let found = RemoteHost::websocket(url).devices().expect("it answers");
    let found: Vec<Device> = found.into_iter().collect();
    found.try_into().expect("two devices")
}
