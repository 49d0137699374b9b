//! The same on three devices of an in-process server, where moves are real and buckets are used. Each of its answers takes
//! long, so trees are small and cases few.

use std::net::TcpListener;
use std::sync::OnceLock;

use burn::server::{RemoteServer, WebSocketTransport};
use burn::tensor::Device;
use burn::tensor::remote::RemoteHost;
use burn_dp::DeviceIds;
use proptest::prelude::*;
use tokio::runtime::{Builder, Runtime};

use crate::config;
use crate::plan::small_plan;
use crate::structures::case;

fn devices() -> Vec<Device> {
    static SERVER: OnceLock<(Runtime, Vec<Device>)> = OnceLock::new();
    let (_, devices) = SERVER.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let hosted: [Device; 3] = std::array::from_fn(|_| Device::flex());
        let transport = WebSocketTransport::from_listener(listener);
        runtime.spawn(RemoteServer::new(hosted).serve_async(transport));
        let host = RemoteHost::websocket(&format!("ws://{address}"));
        let devices = host.devices().expect("the server answers").into_vec();
        (runtime, devices)
    });
    devices.clone()
}

/// All three, in any order.
fn ids() -> impl Strategy<Value = DeviceIds> {
    let order = Just([0usize, 1, 2]).prop_shuffle();
    order.prop_map(|order| DeviceIds::devices(order.map(|id| devices()[id].clone())))
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn a_tree_on_distinct_devices_equals_the_bare_one(plan in small_plan(3), ids in ids()) {
        plan.wrapped(ids).assert_close_to(&plan.bare());
    }

    #[test]
    fn what_goes_through_distinct_devices_comes_back(case in case(), ids in ids()) {
        case.assert_returns(ids);
    }
}
