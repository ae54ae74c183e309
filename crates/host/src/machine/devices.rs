//! Network interfaces and GPUs as sysfs lists them.
//! Not their health: that is doctor's task.

use busbw_core::record::{Gpu, Nic};

use super::Root;

pub(super) fn nics(root: &Root) -> Vec<Nic> {
    let ethernet =
        root.names("sys/class/net").into_iter().filter(|name| name != "lo").filter_map(|name| {
            let up = root.text(format!("sys/class/net/{name}/operstate"))? == "up";
            let speed =
                root.text(format!("sys/class/net/{name}/speed")).and_then(|s| s.parse().ok());
            // A negative speed means that the driver does not know.
            let speed_mbps = speed.and_then(|s: i64| u64::try_from(s).ok()).filter(|s| *s > 0);
            up.then_some(Nic { name, kind: "ethernet".to_owned(), speed_mbps })
        });
    let infiniband = root.names("sys/class/infiniband").into_iter().map(|name| {
        // "400 Gb/sec (4X NDR)"
        let rate = root.text(format!("sys/class/infiniband/{name}/ports/1/rate"));
        let gbps = rate.and_then(|r| r.split_whitespace().next()?.parse::<f64>().ok());
        Nic { name, kind: "infiniband".to_owned(), speed_mbps: gbps.map(|g| (g * 1000.0) as u64) }
    });
    ethernet.chain(infiniband).collect()
}

pub(super) fn gpus(root: &Root) -> Vec<Gpu> {
    let addresses = root.names("sys/bus/pci/devices").into_iter();
    addresses
        .filter_map(|address| {
            let read = |file: &str| root.text(format!("sys/bus/pci/devices/{address}/{file}"));
            let class = read("class")?;
            let (vendor, device) = (read("vendor")?, read("device")?);
            let makes_gpus = matches!(vendor.as_str(), "0x10de" | "0x1002");
            // 0x03: display controllers. Compute GPUs have that class as well.
            let id =
                format!("{}:{}", vendor.trim_start_matches("0x"), device.trim_start_matches("0x"));
            (makes_gpus && class.starts_with("0x03")).then_some(Gpu { address, id })
        })
        .collect()
}
