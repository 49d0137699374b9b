//! Servers, and the devices that they host.

use std::net::TcpListener;

use burn::remote::RemoteHost;
use burn::server::{RemoteServer, WebSocketTransport};
use burn::tensor::Device;
use tokio::runtime::{Builder, Runtime};

use crate::problem::Problem;

/// Servers in this program.
pub struct Servers {
    pub urls: Vec<String>,
    _runtime: Runtime,
}

impl Servers {
    /// Start `count` servers on free ports of the loopback interface; each hosts this machine's CPU twice.
    pub fn start(count: usize) -> Result<Self, Problem> {
        // Serving needs threads of its own: the one that trains waits for answers.
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let mut urls = Vec::new();
        for _ in 0..count {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            urls.push(format!("ws://{}", listener.local_addr()?));
            let server = RemoteServer::new([Device::flex(), Device::flex()]);
            let serving = server.serve_async(WebSocketTransport::from_listener(listener));
            runtime.spawn(async move {
                if let Err(error) = serving.await {
                    eprintln!("warning: a server has ended: {error}");
                }
            });
        }
        Ok(Self {
            urls,
            _runtime: runtime,
        })
    }
}

/// The devices of all servers, server by server.
pub fn connect(urls: &[String]) -> Result<Vec<Device>, Problem> {
    let mut all = Vec::new();
    for url in urls {
        let devices = RemoteHost::websocket(url)
            .devices()
            .map_err(|source| Problem::Connect {
                url: url.clone(),
                source,
            })?;
        for (index, device) in devices.into_iter().enumerate() {
            let mark = if all.is_empty() { " (primary)" } else { "" };
            println!("replica {}: device {index} of {url}{mark}", all.len());
            all.push(device);
        }
    }
    Ok(all)
}
