//! Settings that NCCL logged: from the environment, and from the program that called it.
//! Not whether they are sensible; `busbw lint` says that.

use std::collections::BTreeMap;

use super::cursor::Cursor;
use super::tally::{Tally, keep};

/// The most distinct settings of each kind that are kept.
const MAX_SETTINGS: usize = 2048;

/// Name, then value, then the number of messages: ranks may differ.
pub type Settings = BTreeMap<String, BTreeMap<String, u64>>;

/// The settings read so far: (name, value).
#[derive(Debug)]
pub(super) struct SettingsReader {
    environment: Tally<(String, String)>,
    config: Tally<(String, String)>,
}

impl Default for SettingsReader {
    fn default() -> Self {
        SettingsReader { environment: Tally::new(MAX_SETTINGS), config: Tally::new(MAX_SETTINGS) }
    }
}

impl SettingsReader {
    /// Reads a message; none of its business gives `None`.
    pub(super) fn read(&mut self, mut at: Cursor<'_>) -> Option<()> {
        if at.has("Comm config ") {
            let mut reset = at;
            let (name, value) = match reset.until(" reset to ") {
                // `… reset to NCCL_P2P_MAX_PEERS=8`: from the environment, over what the program set.
                Some(name) if !name.contains(' ') => (name, reset.text()?),
                _ => (at.until(" set to ")?, at.text()?),
            };
            self.config.add((keep(name), keep(value)));
            return Some(());
        }
        // 2.32's NCCL_IB_RAIL_POLICY.
        at.has("NET/IB: ");
        let name = at.word().filter(|name| is_variable(name))?;
        // The second one until 2.11, and in a few places still.
        at.one_of(&[" set by environment to ", " set to "])?;
        let value = at.text()?;
        // A dot ends the sentence after a number; a text has none.
        let number = value.strip_suffix('.').filter(|number| number.parse::<i64>().is_ok());
        self.environment.add((keep(name), keep(number.unwrap_or(value))));
        Some(())
    }

    /// Environment, and configuration of communicators.
    pub(super) fn finish(self, left_out: &mut u64) -> (Settings, Settings) {
        let mut by_name = |tally: Tally<(String, String)>| {
            let mut settings = Settings::new();
            for ((name, value), said) in tally.finish(left_out) {
                settings.entry(name).or_default().insert(value, said);
            }
            settings
        };
        (by_name(self.environment), by_name(self.config))
    }
}

fn is_variable(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    name.contains('_') && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_they_were_set() {
        let mut settings = SettingsReader::default();
        for text in [
            "NCCL_NVLS_ENABLE set by environment to 0.",
            "NCCL_SOCKET_IFNAME set by environment to lo",
            "NCCL_HOSTID set by environment to node0",
            "NCCL_HOSTID set by environment to node1",
            "NCCL_HOSTID set by environment to node1",
            "NCCL_IB_HCA set to mlx5_0",
            "NCCL_TOPO_FILE set by environment to /a b/x.",
            "NCCL_GDR_LEVEL set by environment to -2.",
            "Comm config Blocking set to 1",
            "Comm config launchOrderImplicit reset to NCCL_LAUNCH_ORDER_IMPLICIT=0",
            "NET/IB: NCCL_IB_RAIL_POLICY set by environment to CX9:FLIP",
        ] {
            assert!(settings.read(Cursor::new(text, false)).is_some(), "{text}");
        }
        for text in ["Launch set to 1", "NCCL_X set to", "NCCL_X is set"] {
            assert_eq!(settings.read(Cursor::new(text, false)), None, "{text}");
        }
        let cut = Cursor::new("NCCL_IB_HCA set by environment to mlx5_1", true);
        assert_eq!(settings.read(cut), None, "there may have been more");
        let (environment, config) = settings.finish(&mut 0);
        let value = |name: &str| {
            environment[name].iter().map(|(v, n)| (v.as_str(), *n)).collect::<Vec<_>>()
        };
        assert_eq!(value("NCCL_NVLS_ENABLE"), [("0", 1)]);
        assert_eq!(value("NCCL_HOSTID"), [("node0", 1), ("node1", 2)]);
        assert_eq!(value("NCCL_TOPO_FILE"), [("/a b/x.", 1)]);
        assert_eq!(value("NCCL_GDR_LEVEL"), [("-2", 1)]);
        assert_eq!(config["Blocking"]["1"], 1);
        assert_eq!(config["launchOrderImplicit"]["NCCL_LAUNCH_ORDER_IMPLICIT=0"], 1);
        assert_eq!(value("NCCL_IB_RAIL_POLICY"), [("CX9:FLIP", 1)]);
        assert_eq!(environment.len(), 7);
    }
}
